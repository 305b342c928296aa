"""Dilated residual network DRN-C-26 (Yu, Koltun, Funkhouser 2017): 3x3 with dilation 2 and 4."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network
from benchmarks.zoo.resnet import BRANCH_GAIN


@dataclass(frozen=True)
class Level:
    """Blocks of one resolution and dilation; without ``residual`` nothing is added to them."""

    channels: int
    blocks: int
    stride: int = 1
    dilation: int = 1
    residual: bool = True


LEVELS = (
    Level(16, 1),
    Level(32, 1, stride=2),
    Level(64, 2, stride=2),
    Level(128, 2, stride=2),
    Level(256, 2, dilation=2),
    Level(512, 2, dilation=4),
    Level(512, 1, dilation=2, residual=False),
    Level(512, 1, residual=False),
)


@dataclass(frozen=True)
class DRN:
    """A dilated residual network of type C."""

    levels: tuple[Level, ...] = LEVELS
    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = net.conv(x, "conv1", 16, 7, padding=3)
        x = net.relu(net.batch_norm(x, "bn1"), "relu")
        for index, level in enumerate(self.levels):
            for block in range(1 if cut else level.blocks):
                x = _block(net, x, f"layer{index + 1}.{block}", level, first=not block)
        x = net.conv(net.global_pool(x, "avgpool"), "fc", classes, 1, bias=True)
        return net.flatten(x, "flatten")


def _block(net: Network, x: Tensor, name: str, level: Level, *, first: bool) -> Tensor:
    stride = level.stride if first else 1
    d = level.dilation
    y = net.conv(x, f"{name}.conv1", level.channels, 3, stride=stride, padding=d, dilation=d)
    y = net.relu(net.batch_norm(y, f"{name}.bn1"), f"{name}.relu1")
    y = net.conv(y, f"{name}.conv2", level.channels, 3, padding=d, dilation=d)
    if not level.residual:
        return net.relu(net.batch_norm(y, f"{name}.bn2"), f"{name}.relu")
    y = net.batch_norm(y, f"{name}.bn2", gain=BRANCH_GAIN)
    if stride != 1 or x.channels != level.channels:
        x = net.conv(x, f"{name}.downsample.0", level.channels, 1, stride=stride)
        x = net.batch_norm(x, f"{name}.downsample.1")
    return net.relu(net.add(y, x, f"{name}.add"), f"{name}.relu")
