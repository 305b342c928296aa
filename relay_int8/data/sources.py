"""Data as Python programs have it: arrays, loaders of PyTorch, readers of ONNX Runtime.

Nothing of another package is imported: what an object can do decides what it is taken for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError

MOST_BATCHES = 100_000  # of a reader: twice the images of ImageNet's validation
Array = npt.NDArray[Any]
Batch = Array | Mapping[str, Array]


@runtime_checkable
class Reader(Protocol):
    """What reads calibration data for ONNX Runtime, a CalibrationDataReader."""

    def get_next(self) -> Any:
        """Return the next batch; None after the last."""


Batches = Array | Mapping[str, Array] | Iterable[Any] | Callable[[], Iterable[Any]] | Reader
"""One batch, an iterable of batches that starts anew each time, or a function that returns one.

A batch is an array, a dictionary of arrays, or what a loader gives: a tuple of the inputs in their
order, then labels, which are left out. Tensors of PyTorch and others count as arrays.
"""


def passes(source: Batches) -> Callable[[], Iterable[Any]]:
    """Return a function that gives the batches of ``source`` from the first on.

    Raises
    ------
    CalibrationError
        The source can be read only once.
    """
    if is_array(source) or isinstance(source, Mapping):
        return partial(list, [source])
    if isinstance(source, Reader):
        return _Reader(source)
    if isinstance(source, Iterator):
        raise CalibrationError(
            f"a {type(source).__name__} found, which can be read only once; data is read "
            "several times: give a list, or the function that makes the generator"
        )
    if callable(source):
        return source
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return partial(iter, source)
    raise CalibrationError(
        f"a {type(source).__name__} found, data expected: an array, a list of batches, "
        "a DataLoader, a CalibrationDataReader, a function that returns batches, or a path"
    )


def plain_batch(batch: Any, inputs: int) -> Any:
    """Return a batch with tensors as arrays; of a tuple the first ``inputs``, or the one."""
    if isinstance(batch, Mapping):
        return {name: as_array(value) for name, value in batch.items()}
    if isinstance(batch, tuple | list) and len(batch) >= inputs and all(map(is_array, batch)):
        first = [as_array(value) for value in batch[:inputs]]
        return first[0] if inputs == 1 else first
    return as_array(batch)


def is_array(value: object) -> bool:
    """Whether a value is an array or a tensor of any package; NumPy's scalars are none."""
    return hasattr(value, "__array__") and not isinstance(value, np.generic)


def as_array(value: Any) -> Any:
    """Return a tensor of another package as an array; other values as they are."""
    if isinstance(value, np.ndarray) or not is_array(value):
        return value
    if hasattr(value, "detach"):  # PyTorch: on a GPU, or with a gradient, it is no array yet
        value = value.detach().cpu()
    return np.asarray(value)


class _Reader:
    """The batches of a CalibrationDataReader: rewound for each pass, or kept if it cannot be."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._kept: list[Any] | None = None
        self._is_read = False

    def __call__(self) -> Iterable[Any]:
        if not hasattr(self._reader, "rewind"):
            if self._kept is None:
                self._kept = list(self._batches())
            return self._kept
        if self._is_read:
            self._reader.rewind()
        self._is_read = True
        return self._batches()

    def _batches(self) -> Iterator[Any]:
        for _ in range(MOST_BATCHES):
            if (batch := self._reader.get_next()) is None:
                return
            yield batch
        raise CalibrationError(
            f"a {type(self._reader).__name__} found whose get_next() gave {MOST_BATCHES} batches "
            "and no end; it returns None after the last: a few hundred images are enough"
        )
