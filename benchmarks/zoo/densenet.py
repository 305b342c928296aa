"""DenseNet-121 (Huang et al. 2016): every layer of a block reads what all before it have given."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network

GROWTH = 32  # channels that a layer adds
BOTTLENECK = 4 * GROWTH
STEM = 2 * GROWTH


@dataclass(frozen=True)
class DenseNet:
    """Dense blocks, with a transition that halves channels and image between them.

    Norm and ReLU precede each convolution; concats list every tensor, as torchvision's export has
    them.

    Attributes
    ----------
    blocks, cut
        Layers in each block, in full and for tests.
    """

    blocks: tuple[int, ...] = (6, 12, 24, 16)
    cut: tuple[int, ...] = (3, 2)
    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = net.conv(x, "features.conv0", STEM, 7, stride=2, padding=3)
        x = net.relu(net.batch_norm(x, "features.norm0"), "features.relu0")
        x = net.max_pool(x, "features.pool0", 3, 2, 1)
        blocks = self.cut if cut else self.blocks
        for index, count in enumerate(blocks, 1):
            x = _block(net, x, f"features.denseblock{index}", count)
            if index < len(blocks):
                x = _transition(net, x, f"features.transition{index}")
        x = net.relu(net.batch_norm(x, "features.norm5"), "relu")
        return net.dense(
            net.flatten(net.global_pool(x, "avgpool"), "flatten"), "classifier", classes
        )


def _block(net: Network, x: Tensor, name: str, count: int) -> Tensor:
    parts = [x]
    for index in range(1, count + 1):
        layer = f"{name}.denselayer{index}"
        y = x if index == 1 else net.concat(parts, f"{layer}.concat")
        y = net.relu(net.batch_norm(y, f"{layer}.norm1"), f"{layer}.relu1")
        y = net.conv(y, f"{layer}.conv1", BOTTLENECK, 1)
        y = net.relu(net.batch_norm(y, f"{layer}.norm2"), f"{layer}.relu2")
        parts.append(net.conv(y, f"{layer}.conv2", GROWTH, 3, padding=1))
    return net.concat(parts, f"{name}.concat")


def _transition(net: Network, x: Tensor, name: str) -> Tensor:
    x = net.relu(net.batch_norm(x, f"{name}.norm"), f"{name}.relu")
    return net.avg_pool(net.conv(x, f"{name}.conv", x.channels // 2, 1), f"{name}.pool", 2, 2)
