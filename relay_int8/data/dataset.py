"""Where images come from: checked, one at a time, in an order that never changes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.array_files import read_arrays
from relay_int8.data.picture_folder import PictureFolder
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.sources import Array, Batch, Batches, passes, plain_batch
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError, Int8Error
from relay_int8.messages import extents, misfit_of_type, outside, unreadable

Image = dict[str, npt.NDArray[Any]]
"""Input name -> array, of batch 1."""

Labelled = tuple[str, Batch]
COLOURS = 3  # channels of a picture, unless it is read as grey


@dataclass(frozen=True)
class Dataset:
    """Images for a network; iterating again gives the same images again.

    Iterating yields one image at a time, input name -> array of batch 1, however the source batches
    them. Of a network without a batch an image is one run: all of every input.

    Parameters
    ----------
    batches
        Called at the start of every pass; returns (what to call it in messages, batch) pairs.
    inputs
        The network's inputs; the first axis of each is the batch.
    whole
        Whether the network has no batch: an image has as many rows as the input.
    """

    batches: Callable[[], Iterable[Labelled]]
    inputs: Sequence[TensorInfo]
    whole: bool = False

    def __iter__(self) -> Iterator[Image]:
        """Yield the images.

        Raises
        ------
        CalibrationError
            There is none, or one does not fit the inputs or holds NaN or infinity.
        """
        seen = 0
        for label, batch in self.batches():
            arrays = self._checked(label, batch)
            size = max(self._counts(arrays).values(), default=1)
            for index in range(size):
                image = {i.name: self._one(i, arrays[i.name], index) for i in self.inputs}
                _require_finite(image, label if size == 1 else f"{label}, image {index} of it")
                yield image
            seen += size
        if seen == 0:
            raise CalibrationError(
                "no image found in the data, at least one expected (to calibrate, a few hundred); "
                "give a folder of pictures, a .npy or .npz file, or an iterable that gives the "
                "same batches each time"
            )

    def _checked(self, label: str, batch: Batch) -> dict[str, Array]:
        with _of_the_user(label):
            batch = plain_batch(batch, len(self.inputs))
        if isinstance(batch, list) and batch and len(batch) == len(self.inputs) > 1:
            batch = dict(zip(self._names(), batch, strict=True))
        if not isinstance(batch, Mapping):
            if len(self.inputs) != 1:
                smallest = min(self.inputs, key=lambda info: abs(math.prod(info.shape))).name
                raise CalibrationError(
                    f"{label}: one array found, but the network has inputs {self._names()}; give a "
                    "dictionary of them, or values of those of an ONNX model that never change: "
                    f"ImportOptions(values={{{smallest!r}: ...}})"
                )
            batch = {self.inputs[0].name: batch}
        faults = [f"no input is called {name!r}" for name in batch if name not in self._names()]
        for info in self.inputs:
            fault = _misfit(info, batch.get(info.name), self._rows(info))
            if fault:
                faults.append(f"input {info.name!r}: {fault}")
        counts = {} if faults else self._counts(batch)
        if len(set(counts.values())) > 1:
            faults.append(f"batch sizes differ: {counts}")
        if faults:
            raise CalibrationError(
                f"{label}: {'; '.join(faults)}; the network's inputs are {', '.join(self._names())}"
            )
        return {info.name: batch[info.name] for info in self.inputs}

    def _counts(self, batch: Mapping[str, Array]) -> dict[str, int]:
        """Return how many images each input has; those of no axis are the same for all."""
        return {i.name: len(batch[i.name]) // self._rows(i) for i in self.inputs if i.shape}

    def _rows(self, info: TensorInfo) -> int:
        """Return how many rows of an input belong to an image; 0 if it has no axis."""
        return (info.shape[0] if self.whole else 1) if info.shape else 0

    def _one(self, info: TensorInfo, array: Array, index: int) -> Array:
        """Return what belongs to an image."""
        rows = self._rows(info)
        return array[index * rows : (index + 1) * rows] if rows else array

    def _names(self) -> list[str]:
        return [info.name for info in self.inputs]


def open_data(
    source: str | Path | Batches,
    inputs: Sequence[TensorInfo],
    preprocessing: Preprocessing | None = None,
    *,
    whole: bool = False,
) -> Dataset:
    """Return the images of ``source``.

    Parameters
    ----------
    source
        A folder of pictures (read in order of their paths); a ``.npy`` file, images along its first
        axis; a ``.npz`` file with an array per input name; or what a program has at hand: an array
        or a dictionary of arrays, images along their first axis; an iterable of such batches, a
        PyTorch DataLoader, whose labels are left out; a CalibrationDataReader of ONNX Runtime; or a
        function that returns an iterable. An iterable must start anew each time, as a list or a
        DataLoader does: calibration looks at the data twice.
    inputs
        The network's inputs.
    preprocessing
        For pictures, which need it; arrays are taken as they are.
    whole
        Whether the network has no batch, see :class:`Dataset`.

    Examples
    --------
    >>> x = TensorInfo(name="x", shape=(1, 3), dtype="float32")
    >>> len(list(open_data(np.zeros((5, 3), np.float32), [x])))
    5
    """
    if isinstance(source, str | Path):
        return Dataset(_open_path(Path(source), inputs, preprocessing), inputs, whole)
    if preprocessing is not None:
        raise CalibrationError(
            "preprocessing is for a folder of pictures; arrays are used as given"
        )
    open_source = passes(source)
    return Dataset(partial(_labelled, open_source), inputs, whole)


def data_digest(path: Path) -> str:
    """Return the sha256 of a file, or of the names and contents of a folder's files."""
    sha = hashlib.sha256()
    files = [path] if path.is_file() else sorted(item for item in path.rglob("*") if item.is_file())
    for item in files:
        with item.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        sha.update(f"{item.relative_to(path).as_posix()} {content}\n".encode())
    return sha.hexdigest()


def _labelled(open_source: Callable[[], Iterable[Batch]]) -> Iterator[Labelled]:
    with _of_the_user("the data"):
        batches = iter(open_source())
    for number in count():
        label = f"data batch {number}"
        with _of_the_user(label):
            batch = next(batches, None)
        if batch is None:
            return
        yield label, batch


@contextmanager
def _of_the_user(label: str) -> Iterator[None]:
    """Turn whatever the user's source of batches raises into an error that says so.

    Raises
    ------
    CalibrationError
        If it raises, or is no source.
    """
    try:
        yield
    except Int8Error:
        raise
    except Exception as error:
        raise CalibrationError(
            f"{label}: its source raised {type(error).__name__}: {error}; mend it (a function is "
            "called without arguments, and returns a list or another iterable of arrays)"
        ) from error


def _open_path(
    path: Path, inputs: Sequence[TensorInfo], preprocessing: Preprocessing | None
) -> Callable[[], Iterable[Labelled]]:
    if not path.exists():
        raise CalibrationError(f"{path}: no such file or folder; name the data")
    if path.is_dir():
        if len(inputs) != 1:
            raise CalibrationError(
                f"{path}: a folder of pictures feeds one input, the network has {len(inputs)}; "
                "use a .npz file"
            )
        if preprocessing is None:
            raise CalibrationError(
                f"{path}: a folder of pictures, and nothing says how they become the input; give "
                "Preprocessing(...); Preprocessing() takes pixels as they are"
            )
        return PictureFolder(path, preprocessing)
    if preprocessing is not None:
        raise CalibrationError(f"{path}: preprocessing is for a folder of pictures")
    if path.suffix not in (".npy", ".npz"):
        raise CalibrationError(f"{path}: a folder, a .npy or a .npz file is expected")
    return partial(_of_file, path)


def _of_file(path: Path) -> list[Labelled]:
    return [(str(path), _load(path))]


def _load(path: Path) -> Batch:
    try:
        return read_arrays(path, mapped=True)
    except (OSError, ValueError) as error:
        raise CalibrationError(
            f"{path}: cannot be read as NumPy arrays: {unreadable(error)}"
        ) from error


def _misfit(info: TensorInfo, array: object, rows: int) -> str | None:
    """Say why ``array`` cannot be a batch of input ``info``, or None."""
    if array is None:
        return "missing"
    if not isinstance(array, np.ndarray):
        loader = "; leave labels out" if isinstance(array, tuple | list) else ""
        return f"{type(array).__name__} found, a NumPy array expected{loader}"
    if array.ndim != len(info.shape):
        return (
            f"shape {extents(array.shape)} found, {len(info.shape)} axes expected, the batch first "
            "(x[None] makes a batch of one image)"
        )
    if any(
        want not in (-1, size) for want, size in zip(info.shape[1:], array.shape[1:], strict=True)
    ):
        expected = (-1, *info.shape[1:])
        advice = _advice(array, info)
        return f"shape {extents(array.shape)} found, {extents(expected)} expected{advice}"
    if rows and len(array) % rows:
        return (
            f"shape {extents(array.shape)} found, {extents(info.shape)} expected: the network has "
            "no batch"
        )
    if array.dtype != info.dtype:
        return f"type {array.dtype} found, {misfit_of_type(str(array.dtype), info.dtype)}"
    return outside(array, info.index_range)


def _advice(array: Array, info: TensorInfo) -> str:
    """Say how to mend a batch with the right number of axes; "" for faults that are rare."""
    if info.shape[1:] == (1, *array.shape[2:]) and array.shape[1] == COLOURS:
        return "; Preprocessing(channels='L') gives one channel"
    first, last = array.shape[1:2], array.shape[-1:]
    if info.shape[1:] in ((*last, *array.shape[1:-1]), (*array.shape[2:], *first)):
        return "; transpose it: its channels stand on another axis"
    return ""


def _require_finite(image: Image, label: str) -> None:
    for name, array in image.items():
        bad = array.size - np.count_nonzero(np.isfinite(array))
        if bad:
            raise CalibrationError(
                f"{label}: input {name!r} holds {bad} values that are NaN or infinite; remove the "
                "image or repair what prepares it"
            )
