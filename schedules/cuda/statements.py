"""Statements of written-out CUDA kernels: calls of device functions, barriers, branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate


def call(name: str, *arguments: Any, dtype: str = "void") -> Expr:
    """Call a device function."""
    return tirx.call_extern(dtype, name, *arguments)


def run(name: str, *arguments: Any) -> None:
    """Emit a call of a device function that returns nothing."""
    T.evaluate(call(name, *arguments))


def unrolled(extent: int, start: int = 0) -> Any:
    """Open a loop that CUDA's compiler unrolls, so that what it indexes are registers."""
    return T.unroll(T.int64(start), T.int64(extent))


def barrier() -> None:
    """Emit a barrier of the thread block."""
    T.evaluate(T.tvm_storage_sync("shared"))


@contextmanager
def where(conditions: list[Expr]) -> Iterator[None]:
    """Open a branch; none is emitted where there are no conditions."""
    if conditions:
        with T.If(tirx.all(*conditions)), T.Then():
            yield
    else:
        yield


def registers(name: str, count: int, dtype: str) -> Any:
    """Declare registers of a thread."""
    return allocate(name, (count,), dtype, "local")
