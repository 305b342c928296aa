"""MobileNetV2 (Sandler et al. 2018): depthwise convolutions, linear bottlenecks, ReLU6."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network, convolution
from benchmarks.zoo.resnet import BRANCH_GAIN

# Expansion, channels, blocks, blocks when cut, stride of the first.
STAGES = (
    (1, 16, 1, 1, 1),
    (6, 24, 2, 2, 2),
    (6, 32, 3, 1, 2),
    (6, 64, 4, 1, 2),
    (6, 96, 3, 1, 1),
    (6, 160, 3, 1, 2),
    (6, 320, 1, 1, 1),
)


@dataclass(frozen=True)
class MobileNetV2:
    """Inverted residual blocks between two plain convolutions."""

    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = convolution(net, x, "features.0", 32, 3, _relu6, stride=2)
        index = 1
        for expansion, channels, full, short, stride in STAGES:
            for block in range(short if cut else full):
                name = f"features.{index}"
                x = _block(net, x, name, expansion, channels, 1 if block else stride)
                index += 1
        x = convolution(net, x, f"features.{index}", 1280, 1, _relu6)
        return net.dense(
            net.flatten(net.global_pool(x, "pool"), "flatten"), "classifier.1", classes
        )


def _relu6(net: Network, x: Tensor, name: str) -> Tensor:
    return net.relu(x, name, six=True)


def _block(
    net: Network, x: Tensor, name: str, expansion: int, channels: int, stride: int
) -> Tensor:
    residual = stride == 1 and x.channels == channels
    hidden = expansion * x.channels
    y = x if expansion == 1 else convolution(net, x, f"{name}.conv.0", hidden, 1, _relu6)
    y = convolution(net, y, f"{name}.conv.1", hidden, 3, _relu6, stride=stride, groups=hidden)
    y = net.conv(y, f"{name}.conv.2", channels, 1)
    y = net.batch_norm(y, f"{name}.conv.3", gain=BRANCH_GAIN if residual else 1.0)
    return net.add(x, y, f"{name}.add") if residual else y
