"""FCN-ResNet-50 (Long, Shelhamer, Darrell 2014) in torchvision's form: dilated to stride 8."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network
from benchmarks.zoo.resnet import ResNet

DILATION = {"layer3.0": 1, "layer3": 2, "layer4.0": 2, "layer4": 4}  # of a first block, of others


@dataclass(frozen=True)
class FCN(ResNet):
    """A ResNet whose last two stages are dilated instead of strided, and a head of convolutions.

    Its image has 224 pixels a side, as its backbone's; trained it was with 520.
    """

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return a map of logits for each class."""
        height, width = x.height, x.width
        x = self.features(net, x, cut=cut)
        x = net.conv(x, "classifier.0", x.channels // 4, 3, padding=1)
        x = net.relu(net.batch_norm(x, "classifier.1"), "classifier.2")
        x = net.conv(x, "classifier.4", classes, 1, bias=True)
        return net.resize(x, "out", height, width)

    def stride_of(self, stage: int) -> int:
        """Return the stride of a stage's first block."""
        return 2 if stage == 1 else 1

    def middle(self, net: Network, x: Tensor, name: str, width: int, stride: int) -> Tensor:
        """Add the 3x3 of a bottleneck."""
        dilation = DILATION.get(name, DILATION.get(name.partition(".")[0], 1))
        return net.conv(
            x, f"{name}.conv2", width, 3, stride=stride, padding=dilation, dilation=dilation
        )


FCN_RESNET_50 = FCN((3, 4, 6, 3), (1, 1, 2, 1), bottleneck=True)
