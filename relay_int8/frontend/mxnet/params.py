"""Read the weights of an MXNet model: the list of named arrays that ``mx.nd.save`` writes.

::

    list    u64 0x112, u64 0, u64 count, arrays, u64 count, names
    name    u64 bytes, UTF-8
    array   u32 F993FAC8 (V1)                u32 rank, i64 extents
            u32 F993FAC9 (V2)  i32 storage   i32 rank, i64 extents
            u32 F993FACA (V3)  i32 storage   i32 rank, i64 extents
            u32 rank (before V1)             u32 extents
            then i32 device, i32 its number, i32 type, elements by rows

All little-endian. An array without a shape (rank 0, in V3 -1) ends there. Every length is compared
with the bytes that are left before anything is read or allocated.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.errors import FrontendError
from relay_int8.file_names import absent

Array = np.ndarray[Any, Any]

LIST_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
DENSE = 0
STORAGE = {1: "row-sparse", 2: "compressed sparse rows"}
MAX_RANK = 32  # number of axes; NumPy's limit before 2.0
TYPES = {
    0: "<f4",
    1: "<f8",
    2: "<f2",
    3: "u1",
    4: "<i4",
    5: "i1",
    6: "<i8",
    7: "?",
    8: "<i2",
    9: "<u2",
    10: "<u4",
    11: "<u8",
}


def read_params(path: Path) -> dict[str, Array]:
    """Return name -> array of a parameter file; ``arg:`` and ``aux:`` are taken off the names.

    Raises
    ------
    FrontendError
        There is no such file, it is no whole list of named arrays, or an array is sparse.
    """
    if not path.is_file():
        raise FrontendError(
            f"{path}: {absent(path)}; expected MXNet parameters (pass ImportOptions(params='FILE'))"
        )
    reader = _Reader(path, path.read_bytes())
    if reader.u64("what kind of file it is") != LIST_MAGIC:
        raise FrontendError(
            f"{path}: expected MXNet parameters, found a file that starts with "
            f"{reader.data[:8].hex(' ')}; check the download"
        )
    reader.u64("a reserved number")
    arrays = [_array(reader, index) for index in range(reader.count("arrays", least_bytes=4))]
    names = [_name(reader) for _ in range(reader.count("names", least_bytes=8))]
    if reader.left:
        raise reader.fault(f"{reader.left} bytes follow the list")
    if len(names) != len(arrays):
        raise reader.fault(f"{len(arrays)} arrays but {len(names)} names; save them with names")
    arrays_by_name: dict[str, Array] = {}
    for name, array in zip(names, arrays, strict=True):
        if name in arrays_by_name:
            raise reader.fault(f"two arrays are called {name!r}")
        if array is not None:
            arrays_by_name[name] = array
    return arrays_by_name


class _Reader:
    """The bytes of a file and how far they have been read."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data, self.position = path, data, 0

    @property
    def left(self) -> int:
        """How many bytes have not been read."""
        return len(self.data) - self.position

    def fault(self, fault: str) -> FrontendError:
        """Return the error of a file that is broken where reading stands."""
        return FrontendError(f"{self.path}, byte {self.position}: {fault}; check the download")

    def take(self, size: int, what: str) -> memoryview:
        """Return the next ``size`` bytes."""
        if size > self.left:
            raise self.fault(f"{what} needs {size} bytes, {self.left} are left")
        self.position += size
        return memoryview(self.data)[self.position - size : self.position]

    def number(self, form: str, what: str) -> int:
        """Read one number of a form of ``struct``."""
        return int(struct.unpack(form, self.take(struct.calcsize(form), what))[0])

    def u64(self, what: str) -> int:
        """Read a length or a count, which MXNet writes in eight bytes."""
        return self.number("<Q", what)

    def count(self, what: str, *, least_bytes: int) -> int:
        """Read how many items follow, each of at least so many bytes."""
        number = self.u64(f"the number of {what}")
        if number * least_bytes > self.left:
            raise self.fault(f"{number} {what} cannot be in {self.left} bytes")
        return number


def _array(reader: _Reader, index: int) -> Array | None:
    """Read array number ``index``; None if it holds nothing."""
    what = f"array {index}"
    shape = _shape(reader, what)
    if shape is None:
        return None
    reader.take(8, f"the device of {what}")
    code = reader.number("<i", f"the type of {what}")
    if code not in TYPES:
        raise reader.fault(f"{what} has elements of type {code}, not one of 0 to {max(TYPES)}")
    dtype = np.dtype(TYPES[code])
    size = math.prod(shape)
    elements = reader.take(size * dtype.itemsize, f"{what}, {list(shape)} of {dtype},")
    if dtype == np.bool_ and np.frombuffer(elements, np.uint8).max() > 1:
        raise reader.fault(f"{what} has truth values that are neither 0 nor 1")
    return np.frombuffer(elements, dtype).reshape(shape)


def _shape(reader: _Reader, what: str) -> tuple[int, ...] | None:
    """Read from the format's number to the last extent; None where there is no shape."""
    version = reader.number("<I", f"the format of {what}")
    form = "q"
    if version in (V2, V3):
        storage = reader.number("<i", f"the storage of {what}")
        if storage != DENSE:
            kind = STORAGE.get(storage, f"of storage type {storage}")
            raise reader.fault(f"{what} is {kind}; only dense arrays can be read: save it as dense")
    if version in (V1, V2, V3):
        rank = reader.number("<i", f"the rank of {what}")
    else:
        rank, form = version, "I"
    if rank == (-1 if version == V3 else 0):
        return None
    if not 0 <= rank <= MAX_RANK:
        raise reader.fault(f"{what} has rank {rank}, not at most {MAX_RANK}, or an unknown format")
    extents = reader.take(rank * struct.calcsize(f"<{form}"), f"the shape of {what}")
    shape = struct.unpack(f"<{rank}{form}", extents)
    if min(shape, default=1) < 1:
        raise reader.fault(f"{what} has shape {list(shape)}")
    return shape


def _name(reader: _Reader) -> str:
    text = bytes(reader.take(reader.u64("the length of a name"), "a name"))
    try:
        name = text.decode()
    except UnicodeDecodeError as err:
        raise reader.fault(f"a name that is not UTF-8: {text[:40]!r}") from err
    return name.removeprefix("arg:").removeprefix("aux:")
