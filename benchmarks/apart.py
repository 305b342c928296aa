"""Run a function in a process of its own, so that systems share no memory and no threads."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def call(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns in a new process."""
    return _done(work, *args, **kwargs).result()


def attempt(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> tuple[R | None, str]:
    """Return what ``work`` returns in a new process, and nothing; or None, and why it failed.

    Errors of other systems are of any type; all of them are reported.
    """
    done = _done(work, *args, **kwargs)
    error = done.exception()
    return (done.result(), "") if error is None else (None, f"{type(error).__name__}: {error}")


def _done(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs)
