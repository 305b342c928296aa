"""Loops over a run of elements: as many at once as a register has, then what is left one by one."""

from __future__ import annotations

from collections.abc import Callable

from tvm.tirx import Expr
from tvm.tirx.script import builder as T


def by_chunks(length: int, chunk: int, emit: Callable[[Expr, int], None]) -> None:
    """Emit loops whose bodies are ``emit(first, count)``, ``count`` being ``chunk``, then 1."""
    whole = length // chunk
    for count, begin, end in ((chunk, 0, whole), (1, whole * chunk, length)):
        with T.serial(T.int64(begin), T.int64(end)) as i:
            emit(i * count, count)
