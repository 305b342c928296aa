"""Read the tables of a flatbuffer, the encoding of a TFLite file.

::

    file     u32 place of the root table, four letters that tell the format
    table    i32 how far back its field list is
    list     u16 bytes of the list, u16 bytes of the table, u16 offset of each field or 0
    field    a number; or u32 how far ahead a table, text or vector is
    vector   u32 count, elements; a text is a vector of bytes

All little-endian. Every place and every length is compared with the bytes of the file before
anything is read. Numbers are views of the file. As several fields may refer to one place, what is
read altogether is limited too: by a small multiple of the file's size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.errors import FrontendError

Array = np.ndarray[Any, Any]

READ_BYTES = (8, 1 << 16)
"""What may be read: so many times the file's size, and so many more. Writers need it once."""
TABLE_BYTES = 32
"""What a table counts as, whatever is read of it."""
MAX_TABLES = 1 << 17
MAX_TEXT = 1000


class Flatbuffer:
    """The bytes of a file, and how many may still be read."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data = path, data
        self._left = READ_BYTES[0] * len(data) + READ_BYTES[1]

    def fault(self, offset: int, fault: str) -> FrontendError:
        """Return the error that says what is wrong where."""
        return FrontendError(f"{self.path}, byte {offset}: {fault}; check the download")

    def number(self, form: str, offset: int, what: str) -> Any:
        """Return the number at ``offset``, encoded as ``struct`` calls ``form``."""
        self._require(offset, struct.calcsize(f"<{form}"), what)
        return struct.unpack_from(f"<{form}", self.data, offset)[0]

    def take(self, offset: int, size: int, what: str) -> memoryview:
        """Return ``size`` bytes from ``offset``, a view."""
        self._require(offset, size, what)
        self._left -= size
        if self._left < 0:
            raise self.fault(offset, "its parts overlap: together they are many times the file")
        return memoryview(self.data)[offset : offset + size]

    def table(self, offset: int) -> FlatbufferTable:
        """Return the table at ``offset``."""
        self._left -= TABLE_BYTES
        return FlatbufferTable(self, offset)

    @property
    def root(self) -> FlatbufferTable:
        """Return the table that everything else hangs on."""
        return self.table(int(self.number("I", 0, "the place of the root table")))

    def _require(self, offset: int, size: int, what: str) -> None:
        if not 0 <= offset <= len(self.data) - size:
            raise self.fault(offset, f"{what} needs {size} bytes of {len(self.data)} in the file")


class FlatbufferTable:
    """One table; fields are counted from 0, and an absent one is its default."""

    def __init__(self, buffer: Flatbuffer, offset: int) -> None:
        self._buffer, self._offset = buffer, offset
        self._list = offset - int(buffer.number("i", offset, "a table"))
        size = int(buffer.number("H", self._list, "a list of fields"))
        self._fields = max(0, size // 2 - 2)

    def number(self, field: int, form: str, default: Any = 0) -> Any:
        """Return a number, encoded as ``struct`` calls ``form``."""
        offset = self._find(field)
        return default if offset is None else self._buffer.number(form, offset, f"field {field}")

    def table(self, field: int) -> FlatbufferTable | None:
        """Return the table that a field refers to."""
        offset = self._target(field)
        return None if offset is None else self._buffer.table(offset)

    def array(self, field: int, dtype: str) -> Array:
        """Return a vector of numbers, a view of the file; an absent one is empty."""
        kind = np.dtype(dtype).newbyteorder("<")
        offset, count = self._vector(field)
        taken = self._buffer.take(offset, count * kind.itemsize, f"a vector of {count}")
        return np.frombuffer(taken, kind) if count else np.empty(0, kind)

    def text(self, field: int) -> str:
        """Return a text, or the beginning of a long one; what is no UTF-8 is replaced."""
        offset, count = self._vector(field)
        taken = self._buffer.take(offset, min(count, MAX_TEXT), "a text")
        return bytes(taken).decode(errors="replace")

    def tables(self, field: int) -> Iterator[FlatbufferTable]:
        """Yield the tables of a vector."""
        offset, count = self._vector(field)
        if count > MAX_TABLES:
            raise self._buffer.fault(
                offset, f"a vector of {count} tables, not {MAX_TABLES} at most"
            )
        self._buffer.take(offset, 4 * count, f"a vector of {count}")
        for at in range(offset, offset + 4 * count, 4):
            yield self._buffer.table(at + int(self._buffer.number("I", at, "a table")))

    def _find(self, field: int) -> int | None:
        """Return where a field is, or None if it is absent."""
        if field >= self._fields:
            return None
        offset = int(self._buffer.number("H", self._list + 4 + 2 * field, f"field {field}"))
        return self._offset + offset if offset else None

    def _target(self, field: int) -> int | None:
        """Return where that is what a field refers to, or None if it is absent."""
        offset = self._find(field)
        if offset is None:
            return None
        return offset + int(self._buffer.number("I", offset, f"field {field}"))

    def _vector(self, field: int) -> tuple[int, int]:
        """Return where the elements of a vector begin, and how many there are."""
        offset = self._target(field)
        if offset is None:
            return 0, 0
        return offset + 4, int(self._buffer.number("I", offset, "the length of a vector"))
