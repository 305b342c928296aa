"""U-Net (Ronneberger, Fischer, Brox 2015) as it is trained today: padded, with batch norms.

Widths are those of the brain segmentation network of PyTorch Hub.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network


@dataclass(frozen=True)
class UNet:
    """Two convolutions a level down and up again; each level up reads that of the way down too."""

    width: int = 32
    levels: int = 4
    image_size: int = 256

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return a map of logits for each class."""
        widths = [self.width << level for level in range(2 if cut else self.levels)]
        passed = []
        for level, width in enumerate(widths, 1):
            x = _two(net, x, f"encoder{level}", width)
            passed.append(x)
            x = net.max_pool(x, f"pool{level}", 2, 2)
        x = _two(net, x, "bottleneck", 2 * widths[-1])
        for level, width in reversed(list(enumerate(widths, 1))):
            x = net.deconv(x, f"upconv{level}", width, 2)
            x = net.concat([x, passed[level - 1]], f"concat{level}")
            x = _two(net, x, f"decoder{level}", width)
        return net.conv(x, "conv", classes, 1, bias=True)


def _two(net: Network, x: Tensor, name: str, channels: int) -> Tensor:
    for index in (1, 2):
        x = net.conv(x, f"{name}.conv{index}", channels, 3, padding=1)
        x = net.relu(net.batch_norm(x, f"{name}.norm{index}"), f"{name}.relu{index}")
    return x
