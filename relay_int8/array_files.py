"""Arrays in files: NumPy's readers, with errors of two kinds alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.format import MAGIC_PREFIX

Array = npt.NDArray[Any]
ARCHIVE_PREFIX = b"PK"


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
            if start and not is_array and not start.startswith(ARCHIVE_PREFIX):
                # NumPy takes any other file for a pickle, and advises to load it "unsafely".
                raise ValueError(f"no .npy or .npz file starts with {start.hex(' ')}")
            stream.seek(0)
            if not (mapped and is_array):
                return _plain(np.load(stream, allow_pickle=False))
        return _plain(np.load(file, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError):
        raise
    except Exception as error:  # of tokenize, ast, zipfile, zlib: by which byte is damaged
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _plain(loaded: Any) -> Array | dict[str, Array]:
    return loaded if isinstance(loaded, np.ndarray) else dict(loaded)
