"""ONNX's Col2Im as plain operators."""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.blocks import Blocks, join_blocks
from relay_int8.frontend.onnx.operators.operands import known_integers

Attributes = dict[str, Any]


def col2im(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Put blocks together to an image, added where they overlap.

    (n, c * block, number of blocks) becomes (n, c, *image).
    """
    x, extents, block = (
        inputs[0],
        known_integers(inputs[1], "its extents are"),
        known_integers(inputs[2], "its block is"),
    )
    rank = len(extents)
    pads = [int(n) for n in attributes.get("pads", [0] * 2 * rank)]
    strides, dilation = (
        [int(n) for n in attributes.get(name, [1] * rank)] for name in ("strides", "dilations")
    )
    blocks = Blocks(
        image=extents,
        block=block,
        strides=strides,
        before=pads[:rank],
        after=pads[rank:],
        dilation=dilation,
    )
    return join_blocks(lambda _, value: bb.emit(value), x, blocks)
