"""ResNet (He et al. 2015; v1.5: the stride is the 3x3's) and ResNeXt (Xie et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network

BRANCH_GAIN = 0.5  # trained residual branches are weaker than what they are added to


@dataclass(frozen=True)
class ResNet:
    """A residual network of four stages.

    Attributes
    ----------
    blocks, cut
        Blocks in each stage, in full and with one of each kind.
    bottleneck
        Whether a block is 1x1, 3x3, 1x1 (output four times as wide) or 3x3, 3x3.
    groups, group_width
        Of the 3x3 in a bottleneck: number of groups, and channels of each in the first stage.
    """

    blocks: tuple[int, ...]
    cut: tuple[int, ...]
    bottleneck: bool
    groups: int = 1
    group_width: int = 64
    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = self.features(net, x, cut=cut)
        return net.dense(net.flatten(net.global_pool(x, "avgpool"), "flatten"), "fc", classes)

    def features(self, net: Network, x: Tensor, *, cut: bool) -> Tensor:
        """Add what precedes the head."""
        x = net.conv(x, "conv1", 64, 7, stride=2, padding=3)
        x = net.relu(net.batch_norm(x, "bn1"), "relu")
        x = net.max_pool(x, "maxpool", 3, 2, 1)
        for stage, count in enumerate(self.cut if cut else self.blocks):
            for block in range(count):
                stride = 1 if block else self.stride_of(stage)
                x = self._block(net, x, f"layer{stage + 1}.{block}", 64 << stage, stride)
        return x

    def _block(self, net: Network, x: Tensor, name: str, planes: int, stride: int) -> Tensor:
        channels = 4 * planes if self.bottleneck else planes
        y = x
        if self.bottleneck:
            width = planes * self.group_width // 64 * self.groups
            y = net.batch_norm(net.conv(y, f"{name}.conv1", width, 1), f"{name}.bn1")
            y = net.relu(y, f"{name}.relu1")
            y = self.middle(net, y, name, width, stride)
            y = net.relu(net.batch_norm(y, f"{name}.bn2"), f"{name}.relu2")
            y = net.conv(y, f"{name}.conv3", channels, 1)
            y = net.batch_norm(y, f"{name}.bn3", gain=BRANCH_GAIN)
        else:
            y = net.conv(y, f"{name}.conv1", channels, 3, stride=stride, padding=1)
            y = net.relu(net.batch_norm(y, f"{name}.bn1"), f"{name}.relu1")
            y = net.conv(y, f"{name}.conv2", channels, 3, padding=1)
            y = net.batch_norm(y, f"{name}.bn2", gain=BRANCH_GAIN)
        if stride != 1 or x.channels != channels:
            x = net.conv(x, f"{name}.downsample.0", channels, 1, stride=stride)
            x = net.batch_norm(x, f"{name}.downsample.1")
        return net.relu(net.add(y, x, f"{name}.add"), f"{name}.relu")

    def stride_of(self, stage: int) -> int:
        """Return the stride of a stage's first block."""
        return 2 if stage else 1

    def middle(self, net: Network, x: Tensor, name: str, width: int, stride: int) -> Tensor:
        """Add the 3x3 of a bottleneck."""
        return net.conv(x, f"{name}.conv2", width, 3, stride=stride, padding=1, groups=self.groups)


RESNET_18 = ResNet((2, 2, 2, 2), (1, 1, 1, 1), bottleneck=False)
RESNET_50 = ResNet((3, 4, 6, 3), (2, 1, 1, 1), bottleneck=True)
RESNEXT_50 = ResNet((3, 4, 6, 3), (2, 1, 1, 1), bottleneck=True, groups=32, group_width=4)
