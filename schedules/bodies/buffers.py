"""Buffers of a kernel that is being built: its arguments, flat views, whole tensors, runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.layout import ROW, Layout
from schedules.spec import Spec


def declare_arguments(shapes: Mapping[str, tuple[Sequence[Any], str]]) -> dict[str, Any]:
    """Declare the arguments of the PrimFunc that is being built, in order; return the buffers.

    Parameters
    ----------
    shapes
        Name -> (shape, dtype).
    """
    return {
        name: T.arg(name, T.buffer(int64(shape), dtype, layout=None))
        for name, (shape, dtype) in shapes.items()
    }


def declare_operator(
    spec: Spec, lengths: Mapping[str, int], layout: Layout = ROW
) -> dict[str, Any]:
    """Declare tensors of ``spec``, all in ``layout``, and constants of ``lengths``, or 1."""
    tensors = {
        name: (layout.physical_shape(spec.shape(name)), spec.dtype(name))
        for name in (*spec.tensors, "y")
    }
    y = tensors.pop("y")
    params = {name: ((lengths.get(name, 1),), spec.constant_dtype(name)) for name in spec.params}
    return declare_arguments({**tensors, **params, "y": y})


def allocate(name: str, shape: Sequence[Any], dtype: str, scope: str = "global") -> Any:
    """Allocate a buffer of the block that is being built."""
    buffer = T.sblock_alloc_buffer(int64(shape), dtype, scope=scope, layout=None)
    return IRBuilder.name(name, buffer)


def flat(buffer: Any) -> Any:
    """Declare a view of ``buffer`` with one axis, in the block that is being built."""
    size = T.int64(1)
    for extent in buffer.shape:
        size = size * extent
    return T.decl_buffer((size,), buffer.dtype, data=buffer.data, layout=None)


def whole(buffer: Any) -> Any:
    """Return the region of all of ``buffer``."""
    return buffer[tuple(slice(0, extent) for extent in buffer.shape)]


def ramp(count: int, start: Expr | None = None) -> Expr:
    """Return the index of ``count`` neighbouring elements; of one, a scalar index."""
    start = T.int64(0) if start is None else start
    return start if count == 1 else tirx.Ramp(start, T.int64(1), count)
