"""Work on independent stacks of images, on all cores, in an order that does not matter.

NumPy lets other threads run while it computes. Each stack is computed by itself and results come
back in the order of the stacks, so that no bit depends on how many cores there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

from schedules.cores import usable_cores

T = TypeVar("T")
R = TypeVar("R")
THREADS = 4  # at most: what each stack needs of memory is needed so many times


def in_parallel(function: Callable[[T], R], stacks: Iterable[T]) -> list[R]:
    """Return what ``function`` makes of each stack, in their order; in the caller's context."""
    items = list(stacks)
    threads = min(usable_cores(), THREADS, len(items))
    if threads < 2:
        return [function(item) for item in items]
    contexts = [copy_context() for _ in items]  # each is one thread's at a time
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda context, item: context.run(function, item), contexts, items))
