"""Swin transformers (Liu et al. 2021), as torchvision writes them.

Attention looks into windows, which every other block shifts; a shift is two slices and a concat for
each axis. The shift's mask, computed from constants, is written from its image of regions on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from benchmarks.zoo.attention import BRANCH_GAIN, merge_heads, perceptron
from benchmarks.zoo.tokens import ATTENDED, SHARPNESS, TokenNetwork, Tokens

WINDOW = 7
FAR = -100.0  # what a score loses between tokens that are no neighbours
NO_PADS = np.zeros(8, np.int64)  # written also where the windows fit


@dataclass(frozen=True, kw_only=True)
class Swin:
    """A transformer of windows.

    Attributes
    ----------
    width
        Channels of the first stage; each stage doubles them.
    blocks, heads
        Of each stage.
    """

    width: int
    blocks: tuple[int, ...]
    heads: tuple[int, ...]
    size: int = 224
    opset: int = 18
    classes: int = 1000

    def narrow(self) -> Swin:
        """Return the same with two narrow blocks in each of two stages."""
        return replace(self, width=32, blocks=(2, 2), heads=(2, 4))

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add the network and return its logits."""
        image = net.conv(net.input(3, size), "features.0.0", self.width, 4, stride=4, bias=True)
        x = net.transpose(net.unpacked(image), "permute", 0, 2, 3, 1)
        x = net.layer_norm(x, "features.0.2")
        for stage, (blocks, heads) in enumerate(zip(self.blocks, self.heads, strict=True)):
            if stage:
                x = _merged(net, x, f"features.{2 * stage}")
            for block in range(blocks):
                shifted = bool(block % 2) and min(x.shape[1:3]) > WINDOW
                x = _block(net, x, f"features.{2 * stage + 1}.{block}", heads, shifted)
        x = net.transpose(net.layer_norm(x, "norm"), "channels_first", 0, 3, 1, 2)
        x = net.adaptive_mean(x, "avgpool")
        return net.gemm(net.reshape(x, "flatten", x.shape[:2]), "head", classes)


def _block(net: TokenNetwork, x: Tokens, name: str, heads: int, shifted: bool) -> Tokens:
    y = net.layer_norm(x, f"{name}.norm1")
    x = net.plus(x, _attention(net, y, f"{name}.attn", heads, shifted), f"{name}.add_1")
    y = net.layer_norm(x, f"{name}.norm2")
    y = perceptron(net, y, (f"{name}.mlp.0", f"{name}.mlp.3"), 4 * x.shape[-1])
    return net.plus(x, y, f"{name}.add_2")


def _attention(net: TokenNetwork, x: Tokens, name: str, heads: int, shifted: bool) -> Tokens:
    """Add attention within windows over (batch, height, width, channels)."""
    half, (batch, rows, columns, channels) = WINDOW // 2, x.shape
    bias = _position_bias(net, name, heads)
    y = _padded(net, x, f"{name}.pad")
    if shifted:
        y = _rolled(net, y, f"{name}.roll", half, half)
    grid = (batch, rows // WINDOW, WINDOW, columns // WINDOW, WINDOW, channels)
    y = net.transpose(net.reshape(y, f"{name}.grid", grid), f"{name}.windows", 0, 1, 3, 2, 4, 5)
    y = net.reshape(y, f"{name}.tokens", (prod(y.shape[:3]), WINDOW**2, channels))
    regions = _regions(rows, columns) if shifted else None
    y = _windows(net, y, name, heads, bias, regions)
    y = net.reshape(y, f"{name}.ungrid", (*grid[:2], grid[3], WINDOW, WINDOW, channels))
    y = net.transpose(y, f"{name}.unwindows", 0, 1, 3, 2, 4, 5)
    y = net.reshape(y, f"{name}.image", x.shape)
    return _rolled(net, y, f"{name}.unroll", rows - half, columns - half) if shifted else y


def _windows(
    net: TokenNetwork, x: Tokens, name: str, heads: int, bias: Tokens, regions: np.ndarray | None
) -> Tokens:
    """Add attention over (windows, tokens, channels)."""
    windows, tokens, channels = x.shape
    qkv = net.linear(x, f"{name}.qkv", 3 * channels, gain=SHARPNESS**0.5)
    qkv = net.reshape(qkv, f"{name}.parts", (windows, tokens, 3, heads, channels // heads))
    qkv = net.transpose(qkv, f"{name}.parts_first", 2, 0, 3, 1, 4)
    q, k, v = (net.take(qkv, f"{name}.{part}", 0, index) for index, part in enumerate("qkv"))
    q = net.times(q, f"{name}.q.scaled", (channels // heads) ** -0.5)
    k = net.transpose(k, f"{name}.k.transposed", 0, 1, 3, 2)
    p = net.plus(net.product(q, k, f"{name}.scores", SHARPNESS**2), bias, f"{name}.biased")
    if regions is not None:
        p = _masked(net, p, name, regions)
    y = net.product(net.softmax(p, f"{name}.softmax"), v, f"{name}.attended", ATTENDED * v.square)
    return net.linear(merge_heads(net, y, name), f"{name}.proj", channels, gain=BRANCH_GAIN)


def _position_bias(net: TokenNetwork, name: str, heads: int) -> Tokens:
    """Add the bias of each pair of tokens in a window: a table by their distance."""
    places = np.stack(np.divmod(np.arange(WINDOW**2), WINDOW), -1)
    distance = places[:, None] - places[None] + WINDOW - 1
    rows = (distance[..., 0] * (2 * WINDOW - 1) + distance[..., 1]).ravel()
    name = f"{name}.relative_position_bias"
    x = net.gathered(name, ((2 * WINDOW - 1) ** 2, heads), rows)
    x = net.reshape(x, f"{name}.view", (WINDOW**2, WINDOW**2, heads))
    x = net.transpose(x, f"{name}.permute", 2, 0, 1)
    axes = net.constant(f"{name}.axes", np.array([0], np.int64))
    return net.operator("Unsqueeze", (x, axes), f"{name}.unsqueeze", (1, *x.shape))


def _regions(rows: int, columns: int) -> np.ndarray:
    """Return which of nine regions of the shifted image each pixel of each window belongs to."""
    part = [
        np.repeat([0, 1, 2], (extent - WINDOW, WINDOW - WINDOW // 2, WINDOW // 2))
        for extent in (rows, columns)
    ]
    image: np.ndarray = (3 * part[0][:, None] + part[1]).astype("float32")
    windows = image.reshape(rows // WINDOW, WINDOW, columns // WINDOW, WINDOW)
    return windows.transpose(0, 2, 1, 3).reshape(-1, WINDOW**2)


def _masked(net: TokenNetwork, p: Tokens, name: str, regions: np.ndarray) -> Tokens:
    """Lower the scores between regions, the windows of each image apart."""
    name, (windows, tokens) = f"{name}.mask", regions.shape
    image = net.constant(f"{name}.regions", regions)
    sides = []
    for axis, shape in ((1, (windows, 1, tokens)), (2, (windows, tokens, 1))):
        axes = net.constant(f"{name}.axes{axis}", np.array([axis], np.int64))
        sides.append(net.operator("Unsqueeze", (image, axes), f"{name}.side{axis}", shape))
    shape = (windows, tokens, tokens)
    far, zero = (
        net.constant(f"{name}.{part}", np.array(value, np.float32))
        for part, value in (("far", FAR), ("zero", 0))
    )
    mask = net.operator("Sub", sides, f"{name}.sub", shape)
    same = net.operator("Equal", (mask, zero), f"{name}.same", shape)
    other = net.operator("Not", (same,), f"{name}.other", shape)
    mask = net.operator("Where", (other, far, mask), f"{name}.filled", shape)
    mask = net.operator("Where", (same, zero, mask), name, shape, 0.0)
    axes = net.constant(f"{name}.axes", np.array([0, 2], np.int64))
    mask = net.operator("Unsqueeze", (mask, axes), f"{name}.batch", (1, windows, 1, *shape[1:]))
    y = net.reshape(p, f"{name}.images", (p.shape[0] // windows, windows, *p.shape[1:]))
    return net.reshape(net.plus(y, mask, f"{name}.added"), f"{name}.windows", p.shape)


def _merged(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    """Put the pixels of each square of four side by side, and narrow them to half."""
    x = _padded(net, x, f"{name}.pad")
    rows = [net.slice(x, f"{name}.rows{i}", 1, i, None, 2) for i in (0, 1)]
    parts = [
        net.slice(rows[i], f"{name}.part{i}{j}", 2, j, None, 2)
        for i, j in ((0, 0), (1, 0), (0, 1), (1, 1))
    ]
    x = net.layer_norm(net.join(parts, f"{name}.cat", -1), f"{name}.norm")
    return net.linear(x, f"{name}.reduction", x.shape[-1] // 2, bias=False)


def _padded(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    pads = net.constant(f"{name}.pads", NO_PADS)
    return net.operator("Pad", (x, pads), name, x.shape, mode="constant")


def _rolled(net: TokenNetwork, x: Tokens, name: str, *shifts: int) -> Tokens:
    """Move rows and columns up by ``shifts``; what leaves comes back at the end."""
    for axis, shift in enumerate(shifts, 1):
        first = net.slice(x, f"{name}.{axis}.first", axis, 0, shift)
        rest = net.slice(x, f"{name}.{axis}.rest", axis, shift, x.shape[axis])
        x = net.join([rest, first], f"{name}.{axis}", axis)
    return x


SWIN_T = Swin(width=96, blocks=(2, 2, 6, 2), heads=(3, 6, 12, 24))
