"""MXNet operators that move elements without computing: transpose, concatenate, pad, repeat."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape


def _transpose(step: MxnetStep) -> relax.Expr:
    rank = len(shape(step.x))
    axes = [axis_of(axis or 0, rank) for axis in step.attributes.integers("axes")]
    if axes and sorted(axes) != list(range(rank)):
        raise ValueError(f"its axes are {axes}")
    return relax.op.permute_dims(step.x, axes or list(range(rank))[::-1])


def _swap_axes(step: MxnetStep) -> relax.Expr:
    rank = len(shape(step.x))
    a, b = (axis_of(step.attributes.integer(name, 0), rank) for name in ("dim1", "dim2"))
    order = list(range(rank))
    order[a], order[b] = b, a
    return relax.op.permute_dims(step.x, order)


def _concat(step: MxnetStep) -> relax.Expr:
    axis = axis_of(step.attributes.integer("dim", 1), len(shape(step.x)))
    return relax.op.concat(list(step.inputs), axis=axis)


def _stack(step: MxnetStep) -> relax.Expr:
    axis = axis_of(step.attributes.integer("axis", 0), len(shape(step.x)) + 1)
    return relax.op.stack(list(step.inputs), axis=axis)


def _pad(step: MxnetStep) -> relax.Expr:
    attrs, rank = step.attributes, len(shape(step.x))
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}
    mode = attrs.text("mode")
    if mode not in modes:
        raise ValueError(f"its mode is {mode!r}, not one of {', '.join(modes)}")
    widths = attrs.sizes("pad_width", (0,) * (2 * rank), least=0)
    if mode == "reflect" and any(
        width >= extent
        for pair, extent in zip(zip(*[iter(widths)] * 2, strict=True), shape(step.x), strict=True)
        for width in pair
    ):
        raise ValueError(f"its pad_width {widths} reaches over {list(shape(step.x))}")
    return relax.op.nn.pad(step.x, list(widths), modes[mode], attrs.real("constant_value", 0.0))


def _broadcast_to(step: MxnetStep) -> relax.Expr:
    dims = shape(step.x)
    target = step.attributes.sizes("shape", (0,) * len(dims), least=0)
    return relax.op.broadcast_to(
        step.x, [wanted or extent for wanted, extent in zip(target, dims, strict=True)]
    )


def _broadcast_axis(step: MxnetStep) -> relax.Expr:
    dims, attrs = list(shape(step.x)), step.attributes
    axes, sizes = attrs.integers("axis"), attrs.integers("size")
    for axis, size in zip(axes, sizes, strict=True):
        dims[axis_of(axis or 0, len(dims))] = size or 1
    return relax.op.broadcast_to(step.x, dims)


def _broadcast_like(step: MxnetStep) -> relax.Expr:
    x, like = step.operands("lhs", "rhs")
    if step.attributes.integers("lhs_axes") or step.attributes.integers("rhs_axes"):
        raise NotImplementedError("broadcast_like of some axes")
    return relax.op.broadcast_to(x, shape(like))


def _tile(step: MxnetStep) -> relax.Expr:
    reps = [value or 1 for value in step.attributes.integers("reps")]
    return relax.op.tile(step.x, reps)


def _repeat(step: MxnetStep) -> relax.Expr:
    """Repeat each element along an axis, or of the whole tensor."""
    count = step.attributes.integer("repeats", least=1)
    if "axis" not in step.attributes:
        return relax.op.repeat(step.x, count)
    axis = axis_of(step.attributes.integer("axis"), len(shape(step.x)))
    return relax.op.repeat(step.x, count, axis)


def _reverse(step: MxnetStep) -> relax.Expr:
    """Turn axes around."""
    x = step.x
    for axis in step.attributes.integers("axis"):
        x = step.emit("reversed", relax.op.flip(x, axis_of(axis or 0, len(shape(x)))))
    return x


def _cumulative_sum(step: MxnetStep) -> relax.Expr:
    if "axis" not in step.attributes:
        raise NotImplementedError("a sum over the whole tensor")
    return relax.op.cumsum(step.x, axis_of(step.attributes.integer("axis"), len(shape(step.x))))


def _depth_to_space(step: MxnetStep) -> relax.Expr:
    """Move blocks of channels into space, the block's position slowest."""
    block = step.attributes.integer("block_size", least=1)
    n, c, h, w = shape(step.x)
    if c % block**2:
        raise ValueError(f"{c} channels are no blocks of {block} x {block}")
    parts = (n, block, block, c // block**2, h, w)
    x = step.emit("blocks", relax.op.reshape(step.x, parts))
    x = step.emit("moved", relax.op.permute_dims(x, [0, 3, 4, 1, 5, 2]))
    return relax.op.reshape(x, (n, c // block**2, h * block, w * block))


def _space_to_depth(step: MxnetStep) -> relax.Expr:
    """Move blocks of space into channels, the block's position slowest."""
    block = step.attributes.integer("block_size", least=1)
    n, c, h, w = shape(step.x)
    if h % block or w % block:
        raise ValueError(f"{h} x {w} is no multiple of {block} x {block}")
    x = relax.op.reshape(step.x, (n, c, h // block, block, w // block, block))
    x = relax.op.permute_dims(step.emit("blocks", x), [0, 3, 5, 1, 2, 4])
    return relax.op.reshape(step.emit("moved", x), (n, c * block**2, h // block, w // block))


MOVES: dict[str, Converter] = {
    "BroadcastAxis": _broadcast_axis,
    "Concat": _concat,
    "Pad": _pad,
    "SwapAxis": _swap_axes,
    "broadcast_axes": _broadcast_axis,
    "broadcast_axis": _broadcast_axis,
    "broadcast_like": _broadcast_like,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "cumsum": _cumulative_sum,
    "depth_to_space": _depth_to_space,
    "flip": _reverse,
    "pad": _pad,
    "repeat": _repeat,
    "reverse": _reverse,
    "space_to_depth": _space_to_depth,
    "stack": _stack,
    "swapaxes": _swap_axes,
    "tile": _tile,
    "transpose": _transpose,
}
