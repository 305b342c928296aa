"""Arrays in files: NumPy's readers, with errors of two kinds alone."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy
from numpy.lib.format import MAGIC_PREFIX

Array = npt.NDArray[Any]
ARCHIVE_PREFIX = b"PK"
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
"""Version of a .npy file -> reader of its header; version 3 is for names of fields alone."""


def read_arrays(file: Path, *, mapped: bool = False) -> Array | dict[str, Array]:
    """Return the array of a ``.npy`` file, or name -> array of a ``.npz`` file, whatever its name.

    Parameters
    ----------
    file
        It is not unpickled: arrays of objects are refused.
    mapped
        Leave the elements of a ``.npy`` file on disk until they are looked at.

    Raises
    ------
    OSError
        It cannot be opened.
    ValueError
        It is no such file, is damaged, holds objects or more than there is memory for.
    """
    try:
        with file.open("rb") as stream:
            start = stream.read(len(MAGIC_PREFIX))
            is_array = start == MAGIC_PREFIX
            if not start:
                raise ValueError("it is empty, a .npy or .npz file expected")
            if not is_array and not start.startswith(ARCHIVE_PREFIX):
                # NumPy takes any other file for a pickle, and advises to load it "unsafely".
                raise ValueError(f"no .npy or .npz file starts with {start.hex(' ')}")
            stream.seek(0)
            if not is_array:
                return _archive(stream)
            _require_whole(stream)
            stream.seek(0)
            array: Array = np.load(
                file if mapped else stream, mmap_mode="r" if mapped else None, allow_pickle=False
            )
            return array
    except (OSError, ValueError):
        raise
    except MemoryError as error:
        raise ValueError("it holds more than there is memory for; split it") from error
    except Exception as error:  # of zipfile, zlib: by which byte is damaged
        raise ValueError("it is damaged, encrypted or not whole; copy or save it again") from error


def _archive(stream: IO[bytes]) -> dict[str, Array]:
    with np.load(stream, allow_pickle=False) as archive:
        for member in archive.zip.namelist():
            with archive.zip.open(member) as content:
                _require_plain(content, f"array {member.removesuffix('.npy')!r} of it")
        return dict(archive)


def _require_whole(stream: IO[bytes]) -> None:
    """Refuse a file that ends before its array does; NumPy speaks of maps and offsets."""
    content_bytes = _require_plain(stream, "it")
    missing = stream.tell() + content_bytes - os.fstat(stream.fileno()).st_size
    if missing > 0:
        raise ValueError(f"its last {missing} bytes are missing; copy or save it again")


def _require_plain(stream: IO[bytes], title: str) -> int:
    """Read the header of an array; return how many bytes it announces, or refuse objects."""
    try:
        shape, _, dtype = HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:
        raise ValueError(f"{title} has no header of an array; copy or save it again") from error
    if dtype.hasobject:
        raise ValueError(f"{title} holds Python objects, numbers expected; save those of one type")
    return math.prod(shape) * dtype.itemsize
