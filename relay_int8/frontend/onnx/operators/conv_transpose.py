"""ONNX's ConvTranspose, with every way the standard has to say how large its result is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from relay_int8.graph.dataflow import shape


def conv_transpose(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Convolve transposed in one to three dimensions; ``output_shape`` becomes padding."""
    x, w, *bias = inputs
    rank = len(shape(x)) - 2
    strides = list(attributes.get("strides", (1,) * rank))
    dilation = list(attributes.get("dilations", (1,) * rank))
    extra = list(attributes.get("output_padding", (0,) * rank))
    full = [
        (size - 1) * stride + (k - 1) * d + 1 + more
        for size, stride, k, d, more in zip(
            shape(x)[2:], strides, shape(w)[2:], dilation, extra, strict=True
        )
    ]
    mode = attributes.get("auto_pad", b"NOTSET").decode()
    wanted = attributes.get("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [size * stride for size, stride in zip(shape(x)[2:], strides, strict=True)]
    padding = list(attributes.get("pads", (0,) * 2 * rank)) if mode == "NOTSET" else [0] * 2 * rank
    if wanted is not None:
        padding, grown = _cut_to(full, list(wanted)[-rank:], is_upper=mode == "SAME_UPPER")
        extra = [more + add for more, add in zip(extra, grown, strict=True)]
    op = (relax.op.nn.conv1d_transpose, relax.op.nn.conv2d_transpose, relax.op.nn.conv3d_transpose)
    y = op[rank - 1](
        x,
        w,
        strides=strides,
        padding=padding,
        output_padding=extra,
        dilation=dilation,
        groups=attributes.get("group", 1),
    )
    if not bias or bias[0] is None:
        return y
    return relax.op.add(bb.emit(y), relax.op.reshape(bias[0], (1, -1, *(1,) * rank)))


def _cut_to(
    full: Sequence[int], wanted: Sequence[int], *, is_upper: bool
) -> tuple[list[int], list[int]]:
    """Return widths to cut before each axis, then after each, and what each lacks."""
    surplus = [size - target for size, target in zip(full, wanted, strict=True)]
    total = [max(more, 0) for more in surplus]
    small = [more // 2 for more in total]
    large = [more - part for more, part in zip(total, small, strict=True)]
    padding = [*small, *large] if is_upper else [*large, *small]
    return padding, [max(-more, 0) for more in surplus]
