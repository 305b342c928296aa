"""What was read from a function, kept for whoever reads it again.

Functions do not change, and one pass after another asks the same one for its calls, its readers
and its groups: of each, the second time, within :func:`keeping_readings`, finds what the first did.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tvm import relax

from relay_int8.scopes import sharing

FUNCTIONS = 2  # those that were read last: a function's weights live as long as its readings

P = ParamSpec("P")
T = TypeVar("T")

_Readings = dict[relax.Function, dict[Hashable, Any]]
_kept: ContextVar[_Readings | None] = ContextVar("readings", default=None)


@contextmanager
def keeping_readings() -> Iterator[None]:
    """Keep what is read from the last functions until this scope ends."""
    with sharing(_kept, dict):
        yield


def kept(
    read: Callable[Concatenate[relax.Function, P], T],
) -> Callable[Concatenate[relax.Function, P], T]:
    """Return ``read``, a function of a Relax function and hashable arguments, that keeps results.

    They are shared: nobody may change one.
    """

    @wraps(read)
    def _read(func: relax.Function, /, *args: P.args, **options: P.kwargs) -> T:
        readings = _kept.get()
        if readings is None:
            return read(func, *args, **options)
        known = readings.pop(func, {})
        readings[func] = known  # the last one now
        while len(readings) > FUNCTIONS:
            del readings[next(iter(readings))]
        key = (read, args, tuple(options.items()))
        if key not in known:
            known[key] = read(func, *args, **options)
        result: T = known[key]
        return result

    return _read
