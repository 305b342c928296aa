"""Arrays from files and to files."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8 import array_files
from relay_int8.errors import ConfigError
from relay_int8.files import require_outputs, write_atomic
from relay_int8.messages import unreadable


def input_files(inputs: Sequence[str]) -> list[Path]:
    """Return the files of ``[NAME=]FILE`` arguments."""
    return [Path(argument.rpartition("=")[2]) for argument in inputs]


def read_arrays(inputs: list[str], only: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of ``[NAME=]FILE`` arguments; a file without a name is input ``only``."""
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for argument in inputs:
        name, _, file = argument.rpartition("=")
        name = name or only
        if name in arrays:
            raise ConfigError(f"--input {argument}: input {name} is given twice; say NAME=FILE")
        arrays[name] = _read_array(file)
    return arrays


def _read_array(file: str) -> np.ndarray[Any, Any]:
    try:
        array = array_files.read_arrays(Path(file))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file}: cannot be read as a NumPy array: {unreadable(error)}"
        ) from error
    if not isinstance(array, np.ndarray):
        raise ConfigError(
            f"{file}: it holds several arrays, a .npy file expected; save each input as its own"
        )
    return array


def check_output(path: Path, names: Sequence[str], read: Sequence[Path]) -> None:
    """Refuse a file that cannot hold outputs ``names``, or is read, before they are computed."""
    require_outputs(path, read=read)
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
        raise ConfigError(
            f"{path}: cannot be written: {unreadable(error)}; name another file"
        ) from error
