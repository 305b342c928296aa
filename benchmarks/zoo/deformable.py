"""ResNets with deformable convolutions: versions 1 (Dai et al. 2017) and 2 (Zhu et al. 2018).

Each 3x3 of the last stages looks where a 3x3 convolution of the same input tells it to. Version 1:
the last stage, dilated by 2 in place of its stride, offsets for four parts of the channels. Version
2: the last three stages, offsets and masks for all channels together. The head is ResNet's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network
from benchmarks.zoo.resnet import ResNet


@dataclass(frozen=True)
class DeformableResNet(ResNet):
    """A bottleneck ResNet whose last stages are deformable.

    Attributes
    ----------
    deformable
        How many of the last stages.
    parts
        Parts of the channels with offsets of their own.
    masked
        Whether samples are scaled, which is version 2.
    dilated
        Whether the last stage has dilation 2 and no stride.
    """

    deformable: int = 1
    parts: int = 1
    masked: bool = False
    dilated: bool = False

    def stride_of(self, stage: int) -> int:
        """Return the stride of a stage's first block."""
        return 1 if self.dilated and stage == len(self.blocks) - 1 else super().stride_of(stage)

    def middle(self, net: Network, x: Tensor, name: str, width: int, stride: int) -> Tensor:
        """Add the 3x3 of a bottleneck."""
        stage = int(name.removeprefix("layer").partition(".")[0]) - 1
        if stage < len(self.blocks) - self.deformable:
            return super().middle(net, x, name, width, stride)
        dilation = 2 if self.dilated and stage == len(self.blocks) - 1 else 1
        window = {"stride": stride, "padding": dilation, "dilation": dilation}
        taps = 9 * self.parts
        offset = net.conv(
            x, f"{name}.conv2_offset", (3 if self.masked else 2) * taps, 3, bias=True, **window
        )
        mask = None
        if self.masked:
            logits = net.cut(offset, f"{name}.conv2_logits", 2 * taps, 3 * taps)
            offset = net.cut(offset, f"{name}.conv2_places", 0, 2 * taps)
            mask = net.sigmoid(logits, f"{name}.conv2_mask")
        return net.deform_conv(
            x, offset, mask, f"{name}.conv2", width, 3, parts=self.parts, **window
        )


DCN_RESNET_101 = DeformableResNet(
    (3, 4, 23, 3), (1, 1, 1, 2), bottleneck=True, parts=4, dilated=True
)
DCN_V2_RESNET_101 = DeformableResNet(
    (3, 4, 23, 3), (1, 1, 2, 1), bottleneck=True, deformable=3, masked=True
)
