"""VGG-19 without batch norm (Simonyan and Zisserman 2014)."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))  # channels, convolutions


@dataclass(frozen=True)
class VGG:
    """Stages of 3x3 convolutions and max pooling, then three dense layers.

    The first dense layer reads what is left of the image: 7 x 7 of 224 x 224. Cut in depth, the
    hidden layers are 512 wide instead of 4096.
    """

    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        layer = 0
        for channels, count in STAGES:
            for _ in range(1 if cut else count):
                x = net.conv(x, f"features.{layer}", channels, 3, padding=1, bias=True)
                x = net.relu(x, f"features.{layer + 1}")
                layer += 2
            x = net.max_pool(x, f"features.{layer}", 2, 2)
            layer += 1
        x = net.flatten(x, "flatten")
        for index in (0, 3):
            x = net.dense(x, f"classifier.{index}", 512 if cut else 4096)
            x = net.relu(x, f"classifier.{index + 1}")
        return net.dense(x, "classifier.6", classes)
