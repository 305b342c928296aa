"""ONNX's moves of elements that TVM's importer makes opaque kernels of, or reads less of."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.cropping import cropped
from relay_int8.frontend.importing import SizedByValuesError
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.graph.dataflow import constant, operator, shape

MOST_COPIES = 8
"""Copies that a Tile is imported as, joined by a concat."""


def pad(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Pad by constant widths; ``axes`` (opset 18) names those that are padded."""
    x, *rest = inputs
    given, value, named = (*rest, None, None, None)[:3]
    axes = None if named is None else constant(named)
    widths = known_array(given, "its widths are")
    mode = attributes.get("mode", b"constant").decode()
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    rank = len(shape(x))
    padded = range(rank) if axes is None else [int(axis) % rank for axis in axes]
    before, after = np.split(widths, 2)
    sides = np.zeros((rank, 2), "int64")
    sides[list(padded)] = np.stack([before, after], axis=1)
    x, kept = cropped(bb.emit, x, sides.reshape(-1).tolist(), mode)
    return relax.op.nn.pad(x, kept, modes[mode], _fill(bb, value))


def _fill(bb: relax.BlockBuilder, value: Any) -> float:
    """Return a constant number, which a quantizer may have put behind a DequantizeLinear."""
    if value is None:
        return 0.0
    call = bb.lookup_binding(value) if isinstance(value, relax.Var) else None
    scale, zero = 1.0, 0.0
    if call is not None and operator(call) == "dequantize":
        value, scale, zero = call.args[0], *(_number(argument) for argument in call.args[1:])
    return (_number(value) - zero) * scale


def _number(value: Any) -> float:
    array = known_array(value, "its fill value is")
    return float(array.reshape(())) if array.size else 0.0


def space_to_depth(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Move blocks of pixels to channels, outside of the channels there are (DCR) or inside."""
    size = int(attributes["blocksize"])
    n, c, h, w = shape(inputs[0])
    mode = attributes.get("mode", b"DCR").decode()
    orders = {"DCR": [0, 3, 5, 1, 2, 4], "CRD": [0, 1, 3, 5, 2, 4]}
    if mode not in orders:
        raise NotImplementedError(f"mode is {mode}; only DCR and CRD are read")
    split = bb.emit(relax.op.reshape(inputs[0], (n, c, h // size, size, w // size, size)))
    turned = bb.emit(relax.op.permute_dims(split, orders[mode]))
    return relax.op.reshape(turned, (n, c * size * size, h // size, w // size))


def tile(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    """Repeat axis by axis; TVM's importer makes an opaque kernel of it."""
    x, repeats = inputs[0], known_array(inputs[1], "its repeats are")
    for axis, count in enumerate(repeats.tolist()):
        if count < 1:
            raise NotImplementedError(f"it repeats axis {axis} {count} times")
        if count > MOST_COPIES:
            x = _broadcast(bb, x, axis, int(count))
        elif count > 1:
            x = bb.emit(relax.op.concat([x] * int(count), axis))
    return x


def _broadcast(bb: relax.BlockBuilder, x: relax.Expr, axis: int, count: int) -> relax.Expr:
    """Repeat an axis as an axis more: a concat of many parts takes LLVM minutes."""
    dims = list(shape(x))
    apart = bb.emit(relax.op.reshape(x, [*dims[:axis], 1, *dims[axis:]]))
    wide = bb.emit(relax.op.broadcast_to(apart, [*dims[:axis], count, *dims[axis:]]))
    return bb.emit(relax.op.reshape(wide, [*dims[:axis], count * dims[axis], *dims[axis + 1 :]]))


def squeeze(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Remove axes of extent 1: those that are named, or all, also where none is named."""
    x, *rest = inputs
    named = attributes.get("axes")
    if rest and rest[0] is not None:
        named = known_integers(rest[0], "its axes are")
    return relax.op.squeeze(x, [int(axis) for axis in named] if named else None)


def filled(_: relax.BlockBuilder, __: list[Any], ___: dict[str, Any]) -> relax.Expr:
    """Refuse a shape that is computed; ConstantOfShape of a constant is a constant."""
    raise SizedByValuesError("the shape of its result is computed, not constant")


def compress(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Take what a constant condition says, along an axis or of all elements in a row."""
    x, condition = inputs
    chosen = np.flatnonzero(known_array(condition, "its condition is"))
    axis = attributes.get("axis")
    if axis is None:
        x, axis = bb.emit(relax.op.reshape(x, (-1,))), 0
    axis = int(axis) % len(shape(x))
    if chosen.size and chosen[-1] >= shape(x)[axis]:
        raise ValueError(f"its condition has {chosen[-1] + 1} elements for {list(shape(x))}")
    return relax.op.take(x, relax.const(chosen.astype("int64")), axis)
