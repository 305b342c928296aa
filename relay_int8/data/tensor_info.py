"""Name, shape and type of a network's input or output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relay_int8.messages import extents, misfit_of_type, outside


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

    def __str__(self) -> str:
        """Return it as people write it.

        Examples
        --------
        >>> str(TensorInfo(name="x", shape=(-1, 3, 8, 8), dtype="float32"))
        'x float32 any x 3 x 8 x 8'
        """
        return f"{self.name} {self.dtype} {extents(self.shape)}"

    def misfit(self, array: object) -> str | None:
        """Say why ``array`` cannot be this tensor, or None."""
        if not isinstance(array, np.ndarray):
            return f"{type(array).__name__} given, a NumPy array expected"
        # NumPy takes microseconds to spell a type; comparing it with a name takes none.
        dtype = self.dtype if array.dtype == self.dtype else str(array.dtype)
        return self.type_misfit(array.shape, dtype) or outside(array, self.index_range)

    def type_misfit(self, shape: Sequence[int], dtype: str) -> str | None:
        """Say why an array of that shape and type cannot be this tensor, or None."""
        if dtype != self.dtype:
            return f"type {dtype} given, {misfit_of_type(dtype, self.dtype)}"
        fits = tuple(shape) == self.shape or (
            len(shape) == len(self.shape)
            and all(wanted in (-1, size) for wanted, size in zip(self.shape, shape, strict=True))
        )
        if not fits:
            return f"shape {extents(shape)} given, {extents(self.shape)} expected"
        return None
