"""Name, shape and type of a network's input or output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """Name, shape and type of an input or output; a size of -1 is any (a symbolic batch).

    ``index_range`` is the lowest and the highest integer that an input may hold, where the network
    indexes something by it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    index_range: tuple[int, int] | None = None
