"""MobileViT (Mehta and Rastegari 2021), as Hugging Face writes it, batch norms folded.

Convolutions of inverted residuals, then blocks in which tokens are pixels: attention is among those
of one place in their squares of two by two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.zoo.attention import BRANCH_GAIN, merge_heads, perceptron, split_heads
from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.tokens import ATTENDED, SHARPNESS, TokenNetwork, Tokens

HEADS, PATCH, EXPANSION = 4, 2, 4


@dataclass(frozen=True, kw_only=True)
class MobileViT:
    """Stages of inverted residuals, then stages of transformers.

    Attributes
    ----------
    widths
        Channels of the stem, and of the five stages.
    token_widths, blocks
        Of the last three stages: channels of a token, and blocks of attention.
    last
        Channels of the last convolution.
    """

    widths: tuple[int, ...]
    token_widths: tuple[int, ...]
    blocks: tuple[int, ...]
    last: int
    size: int = 256
    opset: int = 20
    classes: int = 1000

    def narrow(self) -> MobileViT:
        """Return the same with one narrow block of attention in each of two stages."""
        return replace(
            self, widths=(16, 16, 16, 24, 32), token_widths=(32, 48), blocks=(1, 1), last=64
        )

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add the network and return its logits."""
        stem, first, second, *others = self.widths
        x = _convolution(net, net.input(3, size), "conv_stem", stem, 3, stride=2)
        x = _inverted(net, x, "encoder.0", first, 1)
        for block in range(3):
            x = _inverted(net, x, f"encoder.1.{block}", second, 1 if block else 2)
        stages = zip(others, self.token_widths, self.blocks, strict=True)
        for stage, (width, token_width, blocks) in enumerate(stages, 2):
            x = _inverted(net, x, f"encoder.{stage}.downsampling", width, 2)
            x = _transformer(net, x, f"encoder.{stage}", token_width, blocks)
        x = _convolution(net, x, "conv_1x1_exp", self.last, 1)
        return net.gemm(net.mean(net.unpacked(x), "mean", keep=False), "classifier", classes)


def _convolution(
    net: TokenNetwork,
    x: Tensor,
    name: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
) -> Tensor:
    """Add a convolution and a swish."""
    options = {"stride": stride, "padding": kernel // 2, "groups": groups}
    return net.swish(net.conv(x, name, channels, kernel, bias=True, **options), f"{name}.silu")


def _inverted(net: TokenNetwork, x: Tensor, name: str, channels: int, stride: int) -> Tensor:
    hidden = EXPANSION * x.channels
    y = _convolution(net, x, f"{name}.expand_1x1", hidden, 1)
    y = _convolution(net, y, f"{name}.conv_3x3", hidden, 3, stride=stride, groups=hidden)
    y = net.conv(y, f"{name}.reduce_1x1", channels, 1, bias=True)
    return net.add(x, y, f"{name}.add") if stride == 1 and x.channels == channels else y


def _transformer(net: TokenNetwork, x: Tensor, name: str, width: int, blocks: int) -> Tensor:
    y = _convolution(net, x, f"{name}.conv_kxk", x.channels, 3)
    y = net.conv(y, f"{name}.conv_1x1", width, 1)
    tokens = _unfolded(net, net.unpacked(y), f"{name}.unfold")
    for block in range(blocks):
        tokens = _block(net, tokens, f"{name}.transformer.{block}")
    tokens = net.layer_norm(tokens, f"{name}.layernorm")
    y = net.image(_folded(net, tokens, f"{name}.fold", y))
    y = _convolution(net, y, f"{name}.conv_projection", x.channels, 1)
    return _convolution(net, net.concat([x, y], f"{name}.cat"), f"{name}.fusion", x.channels, 3)


def _unfolded(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    """Return an image as (batch and place in the square, squares, channels)."""
    batch, channels, height, width = x.shape
    rows, columns, area = height // PATCH, width // PATCH, PATCH**2
    x = net.reshape(x, f"{name}.rows", (batch * channels * rows, PATCH, columns, PATCH))
    x = net.transpose(x, f"{name}.squares", 0, 2, 1, 3)
    x = net.reshape(x, f"{name}.places", (batch, channels, rows * columns, area))
    x = net.transpose(x, f"{name}.places_first", 0, 3, 2, 1)
    return net.reshape(x, name, (batch * area, rows * columns, channels))


def _folded(net: TokenNetwork, x: Tokens, name: str, image: Tensor) -> Tokens:
    """Undo :func:`_unfolded`, to the extents of ``image``."""
    area, (merged, squares, channels) = PATCH**2, x.shape
    rows, columns = image.height // PATCH, image.width // PATCH
    x = net.reshape(x, f"{name}.places", (merged // area, area, squares, channels))
    x = net.transpose(x, f"{name}.places_last", 0, 3, 2, 1)
    x = net.reshape(x, f"{name}.squares", (net.batch * channels * rows, columns, PATCH, PATCH))
    x = net.transpose(x, f"{name}.rows", 0, 2, 1, 3)
    return net.reshape(x, name, (net.batch, channels, image.height, image.width))


def _block(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    y = net.layer_norm(x, f"{name}.layernorm_before")
    x = net.plus(_attention(net, y, f"{name}.attention"), x, f"{name}.add_1")
    y = net.layer_norm(x, f"{name}.layernorm_after")
    names = (f"{name}.intermediate.dense", f"{name}.output.dense")
    y = perceptron(net, y, names, 2 * x.shape[-1], TokenNetwork.silu)
    return net.plus(y, x, f"{name}.add_2")


def _attention(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    """Add attention whose scores are divided after the product."""
    width = x.shape[-1]
    q, k, v = (
        split_heads(net, net.linear(x, f"{name}.{part}", width, gain=gain), f"{name}.{part}", HEADS)
        for part, gain in (("query", SHARPNESS), ("key", 1.0), ("value", 1.0))
    )
    q = net.transpose(q, f"{name}.query.heads", 0, 2, 1, 3)
    v = net.transpose(v, f"{name}.value.heads", 0, 2, 1, 3)
    k = net.transpose(k, f"{name}.key.heads", 0, 2, 3, 1)
    root = net.constant(f"{name}.root", np.array((width // HEADS) ** 0.5, np.float32))
    p = net.product(q, k, f"{name}.scores", SHARPNESS**2 * width / HEADS)
    p = net.operator("Div", (p, root), f"{name}.div", p.shape, SHARPNESS**2)
    y = net.product(net.softmax(p, f"{name}.softmax"), v, f"{name}.attended", ATTENDED * v.square)
    return net.linear(merge_heads(net, y, name), f"{name}.out", width, gain=BRANCH_GAIN)


MOBILEVIT_S = MobileViT(
    widths=(16, 32, 64, 96, 128, 160), token_widths=(144, 192, 240), blocks=(2, 4, 3), last=640
)
