"""Weights that lie in a file: mapped into memory, so that processes have them in common.

TVM's virtual machine copies the constants of a library. Large ones are arguments of ``main``
instead, which are bound once, to pages of the artifact's file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from relay_int8.runtime.tvm_runtime import ALIGNMENT
from relay_int8.runtime.weight_entry import WeightEntry

Array = np.ndarray[Any, Any]


def pack(arrays: Sequence[Array]) -> tuple[bytes, tuple[WeightEntry, ...]]:
    """Return arrays one behind the other, each aligned as kernels assume, and where they lie."""
    parts: list[bytes | memoryview] = []
    entries: list[WeightEntry] = []
    for array in arrays:
        end = entries[-1].end if entries else 0
        gap = -end % ALIGNMENT
        entries.append(WeightEntry(offset=end + gap, shape=array.shape, dtype=str(array.dtype)))
        parts += [bytes(gap), np.ascontiguousarray(array).data.cast("B")]
    return b"".join(parts), tuple(entries)


def map_bytes(file: IO[bytes], begin: int, size_bytes: int) -> Array:
    """Return a part of a file as uint8, in pages that all processes share which have mapped it.

    The mapping is private: what is written to it stays in this process and out of the file.

    Raises
    ------
    ValueError
        If the file ends before.
    OSError
        If it cannot be mapped.
    """
    # Read-only arrays would do, but NumPy before 2.1 exports none by DLPack.
    return np.asarray(np.memmap(file, np.uint8, "c", begin, (size_bytes,)))


def arrays_in(memory: Array, entries: Sequence[WeightEntry]) -> tuple[Array, ...]:
    """Return the arrays that lie in ``memory``, which is uint8; nothing is copied."""
    return tuple(
        memory[entry.offset : entry.end].view(entry.dtype).reshape(entry.shape) for entry in entries
    )
