"""SegFormer (Xie et al. 2021), as Hugging Face writes it: tokens and images take turns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.zoo.attention import (
    BRANCH_GAIN,
    attention_of_layers,
)
from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.tokens import TokenNetwork, Tokens

PATCHES = ((7, 4), (3, 2), (3, 2), (3, 2))  # kernel and stride of what embeds them
RESIZED = 0.6  # what interpolation leaves of a mean square


@dataclass(frozen=True, kw_only=True)
class SegFormer:
    """Four stages of attention to a smaller image, and a head that joins them.

    Attributes
    ----------
    widths, heads, blocks, reductions
        Of each stage: channels, heads, blocks, and how much smaller the image of the keys is.
    head_width
        Channels of the head.
    """

    widths: tuple[int, ...]
    heads: tuple[int, ...]
    blocks: tuple[int, ...]
    reductions: tuple[int, ...]
    head_width: int
    size: int = 256
    opset: int = 20
    classes: int = 19

    def narrow(self) -> SegFormer:
        """Return the same with one narrow block in each of two stages."""
        return replace(
            self,
            widths=(16, 32),
            heads=(1, 2),
            blocks=(1, 1),
            reductions=(4, 1),
            head_width=32,
        )

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add the network and return its logits, one class for each square of four by four."""
        image, stages = net.input(3, size), []
        for stage, blocks in enumerate(self.blocks):
            x, extents = self._embedded(net, image, stage)
            for block in range(blocks):
                x = self._block(net, x, extents, stage, f"stages.{stage}.blocks.{block}")
            name = f"stages.{stage}.layer_norm"
            x = net.layer_norm(x, name)
            x = net.reshape(x, f"{name}.view", (net.batch, *extents, self.widths[stage]))
            image = net.image(net.transpose(x, f"{name}.permute", 0, 3, 1, 2))
            stages.append(image)
        return self._head(net, stages, classes)

    def _embedded(
        self, net: TokenNetwork, image: Tensor, stage: int
    ) -> tuple[Tokens, tuple[int, int]]:
        name = f"stages.{stage}.patch_embeddings"
        kernel, stride = PATCHES[stage]
        options = {"stride": stride, "padding": kernel // 2}
        y = net.conv(image, f"{name}.proj", self.widths[stage], kernel, bias=True, **options)
        return net.layer_norm(_tokens(net, y, f"{name}"), f"{name}.layer_norm"), (y.height, y.width)

    def _block(
        self, net: TokenNetwork, x: Tokens, extents: tuple[int, int], stage: int, name: str
    ) -> Tokens:
        y = net.layer_norm(x, f"{name}.layernorm_before")
        x = net.plus(
            self._attention(net, y, extents, stage, f"{name}.attention"), x, f"{name}.add_1"
        )
        y = net.layer_norm(x, f"{name}.layernorm_after")
        return net.plus(_mixed(net, y, extents, f"{name}.mlp"), x, f"{name}.add_2")

    def _attention(
        self, net: TokenNetwork, x: Tokens, extents: tuple[int, int], stage: int, name: str
    ) -> Tokens:
        context, ratio = x, self.reductions[stage]
        if ratio > 1:
            part = f"{name}.sequence_reduction"
            image = net.image(_image(net, x, extents, part))
            image = net.conv(image, f"{part}.conv", x.shape[-1], ratio, stride=ratio, bias=True)
            context = net.layer_norm(_tokens(net, image, f"{part}.tokens"), f"{part}.layer_norm")
        return attention_of_layers(net, x, name, self.heads[stage], context=context)

    def _head(self, net: TokenNetwork, stages: list[Tensor], classes: int) -> Tokens:
        extents, resized = (stages[0].height, stages[0].width), []
        for stage, image in enumerate(stages):
            name = f"decode_head.linear_projections.{stage}"
            x = net.linear(_tokens(net, image, name), f"{name}.proj", self.head_width)
            x = _image(net, x, (image.height, image.width), f"{name}.image")
            resized.append(_enlarged(net, x, f"{name}.resize", extents))
        x = net.join(resized[::-1], "decode_head.cat", 1)
        y = net.conv(net.image(x), "decode_head.linear_fuse", self.head_width, 1, bias=True)
        y = net.relu(y, "decode_head.activation")
        return net.unpacked(net.conv(y, "decode_head.classifier", classes, 1, bias=True))


def _mixed(net: TokenNetwork, x: Tokens, extents: tuple[int, int], name: str) -> Tokens:
    """Add a perceptron with a depthwise convolution of 3x3 in it."""
    width, hidden = x.shape[-1], 4 * x.shape[-1]
    image = net.image(_image(net, net.linear(x, f"{name}.fc1", hidden), extents, f"{name}.image"))
    image = net.conv(image, f"{name}.dwconv", hidden, 3, padding=1, groups=hidden, bias=True)
    x = net.gelu(_tokens(net, image, f"{name}.tokens"), f"{name}.activation")
    return net.linear(x, f"{name}.fc2", width, gain=BRANCH_GAIN)


def _tokens(net: TokenNetwork, image: Tensor, name: str) -> Tokens:
    shape = (net.batch, image.channels, image.height * image.width)
    x = net.reshape(net.unpacked(image), f"{name}.flatten", shape)
    return net.transpose(x, f"{name}.transpose", 0, 2, 1)


def _image(net: TokenNetwork, x: Tokens, extents: tuple[int, int], name: str) -> Tokens:
    x = net.transpose(x, f"{name}.channels_first", 0, 2, 1)
    return net.reshape(x, f"{name}.view", (*x.shape[:2], *extents))


def _enlarged(net: TokenNetwork, x: Tokens, name: str, extents: tuple[int, int]) -> Tokens:
    """Add a bilinear resize, written also where the extents are the same."""
    shape = (*x.shape[:2], *extents)
    sizes = net.constant(f"{name}.sizes", np.array(shape, np.int64))
    nothing = Tokens("", (), 0.0)
    options = {"coordinate_transformation_mode": "half_pixel", "mode": "linear"}
    square = x.square if shape == x.shape else RESIZED * x.square
    return net.operator("Resize", (x, nothing, nothing, sizes), name, shape, square,
                        nearest_mode="floor", **options)  # fmt: skip


SEGFORMER_B0 = SegFormer(
    widths=(32, 64, 160, 256),
    heads=(1, 2, 5, 8),
    blocks=(2, 2, 2, 2),
    reductions=(8, 4, 2, 1),
    head_width=256,
)
