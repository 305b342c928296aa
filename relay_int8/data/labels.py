"""Labels of images: in order, by file name, or by the folders that the pictures lie in."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8 import finite_json
from relay_int8.array_files import read_arrays
from relay_int8.errors import ConfigError
from relay_int8.messages import few, unreadable

SEPARATORS = (",", ";", "\t")
"""Of columns: spreadsheets write semicolons where a comma is the decimal point."""
Labels = npt.NDArray[np.integer[Any]]


def read_labels(source: Path, pictures: Sequence[PurePath] | None = None) -> Labels:
    """Return one class for each image.

    Parameters
    ----------
    source
        A ``.npy`` file, or text with one class a line, in the order of the images; a ``.csv`` file
        of file name and class, or a ``.json`` file ``{"name": class}``, in any order; or the folder
        of the pictures, whose subfolders are the classes: by number where all are named so, else
        in order of their names, as torchvision's ImageFolder has them.
    pictures
        Their paths within the folder, in the order they are read; None where data is an array.

    Raises
    ------
    ConfigError
        The labels cannot be read, are no integers, or a picture has none.
    """
    if source.is_dir():
        return _of_folders(source, _pictures(source, pictures))
    try:
        if source.suffix == ".npy":
            labels: Any = read_arrays(source)
        elif source.suffix == ".json":
            labels = finite_json.loads(source.read_bytes())
        elif source.suffix == ".csv":
            labels = _rows(source.read_text(encoding="utf-8-sig"))
        else:
            labels = np.array(source.read_text(encoding="utf-8-sig").split(), dtype=np.int64)
    except (OSError, OverflowError, ValueError, csv.Error) as error:
        raise ConfigError(f"{source}: cannot be read as labels: {unreadable(error)}") from error
    if isinstance(labels, Mapping):
        labels = _of_names(source, labels, _pictures(source, pictures))
    try:
        array = np.asarray(labels)
    except ValueError as error:  # lists of several lengths
        raise ConfigError(f"{source}: labels are no array: {error}") from error
    if array.dtype.kind not in "iu":
        raise ConfigError(f"{source}: labels are {array.dtype}, integers expected")
    return array


def _pictures(source: Path, pictures: Sequence[PurePath] | None) -> Sequence[PurePath]:
    if pictures is None:
        raise ConfigError(
            f"{source}: labels by file name are for a folder of pictures; for arrays give one "
            "class a line, in order"
        )
    return pictures


def _rows(text: str) -> list[int] | dict[str, int]:
    """Return the classes of a CSV text: by name, or in order if it has a single column."""
    first = re.sub(r'"[^"]*"', "", text.partition("\n")[0])
    separator = next((mark for mark in SEPARATORS if mark in first), ",")
    rows = [row for row in csv.reader(text.splitlines(), delimiter=separator) if row]
    if rows and not _is_integer(rows[0][-1]):
        del rows[0]  # the names of the columns
    if not rows:
        raise ValueError("it holds none")
    for number, row in enumerate(rows, 1):
        if not _is_integer(row[-1]):
            raise ValueError(f"row {number} is {row}; its last column is no integer")
    if all(len(row) == 1 for row in rows):
        return [int(row[0]) for row in rows]
    classes: dict[str, int] = {}
    for number, row in enumerate(rows, 1):
        name, found = row[0].strip(), int(row[-1])
        if classes.setdefault(name, found) != found:
            raise ValueError(f"row {number} gives {name} class {found}, one before {classes[name]}")
    return classes


def _is_integer(text: str) -> bool:
    return text.strip().removeprefix("-").isdecimal()


def _of_names(source: Path, classes: Mapping[str, Any], pictures: Sequence[PurePath]) -> list[Any]:
    """Return the class of each picture by its path, its file name, or that without an ending."""
    spellings = [(path.as_posix(), path.name, path.stem) for path in pictures]
    missing = [names[0] for names in spellings if not any(name in classes for name in names)]
    if missing:
        raise ConfigError(
            f"{source}: {len(missing)} of {len(pictures)} pictures have no label: {few(missing)}; "
            "name each by its path within the folder or its file name"
        )
    keys = [next(name for name in names if name in classes) for names in spellings]
    several = [key for key, count in Counter(keys).items() if count > 1]
    if several:
        raise ConfigError(
            f"{source}: several pictures of the folder are called {few(several)}; name each by its "
            "path within the folder"
        )
    return [classes[key] for key in keys]


def _of_folders(folder: Path, pictures: Sequence[PurePath]) -> Labels:
    """Return the class of each picture: the number of its first folder, by name or by order."""
    loose = [path.as_posix() for path in pictures if len(path.parts) < 2]
    if loose:
        raise ConfigError(
            f"{folder}: class folders are expected as labels, and {len(loose)} pictures lie in "
            f"none: {few(loose)}; give a file of labels"
        )
    names = sorted({path.parts[0] for path in pictures})
    numbers = {name: index for index, name in enumerate(names)}
    if all(name.isdecimal() for name in names):
        numbers = {name: int(name) for name in names}
    return np.array([numbers[path.parts[0]] for path in pictures], np.int64)
