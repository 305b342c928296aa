"""What calls within one scope share: made by the outermost scope, gone when it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def sharing(variable: ContextVar[T | None], make: Callable[[], T]) -> Iterator[None]:
    """Let ``variable`` hold what ``make`` returns, or what a scope around this one has made."""
    known = variable.get()
    token = variable.set(make() if known is None else known)
    try:
        yield
    finally:
        variable.reset(token)
