"""The frame of a kernel that is being built: its function, and the axes of its blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T


@contextmanager
def prim_func(**attributes: int) -> Iterator[IRBuilder]:
    """Open a private PrimFunc with ``attributes``, whose buffers do not overlap.

    Once it is closed, ``get()`` of the builder returns it.
    """
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_attr({"tirx.noalias": True, **attributes})
        yield builder


def axes(names: str, extents: Sequence[Any], loops: Any, *, reduce: bool = False) -> list[Any]:
    """Declare axes of the block that is being built, which are the loops, one by one."""
    axis = T.axis.reduce if reduce else T.axis.spatial
    return [
        IRBuilder.name(name, axis((T.int64(0), extent), loop, "int64"))
        for name, extent, loop in zip(names.split(), extents, loops, strict=True)
    ]
