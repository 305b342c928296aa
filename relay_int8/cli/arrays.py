"""Arrays from files and to files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic


def read_arrays(inputs: list[str], only: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of ``[NAME=]FILE`` arguments; a file without a name is input ``only``."""
    arrays = {}
    for argument in inputs:
        name, _, file = argument.rpartition("=")
        try:
            arrays[name or only] = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ConfigError(f"{file}: cannot be read as a NumPy array: {error}") from error
    return arrays


def check_suffix(path: Path, names: Sequence[str]) -> None:
    """Refuse a file that cannot hold outputs ``names``, before they are computed."""
    if path.suffix not in (".npy", ".npz") or (path.suffix == ".npy" and len(names) > 1):
        raise ConfigError(f"{path}: outputs are {', '.join(names)}; name a .npz file for them")


def write_arrays(path: Path, outputs: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write a single array to a .npy file, several by name to a .npz file."""
    buffer = io.BytesIO()
    if path.suffix == ".npy":
        np.save(buffer, next(iter(outputs.values())), allow_pickle=False)
    else:
        np.savez(buffer, allow_pickle=False, **outputs)
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error}") from error
