"""Masks of images, the class of each pixel: an array of all, or pictures named as the images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from relay_int8.array_files import read_arrays
from relay_int8.data.natural_order import naturally_sorted
from relay_int8.errors import ConfigError
from relay_int8.messages import few, unreadable

Mask = npt.NDArray[np.integer[Any]]
SUFFIXES = (".png", ".npy")
CLASS_MODES = ("1", "L", "P", "I", "I;16")
"""Of Pillow: what a pixel holds is a number; of a palette ("P") its place there."""


def read_masks(source: Path, pictures: Sequence[PurePath] | None = None) -> Sequence[Mask]:
    """Return one mask for each image, (height, width) integers.

    Parameters
    ----------
    source
        A ``.npy`` file, (images, height, width); or a folder of ``.png`` files, with a palette or
        gray, and ``.npy`` files.
    pictures
        The images' paths within their folder, in the order they are read: masks have the same
        names but for the suffix. None where data is an array: masks go in order of their paths.

    Raises
    ------
    ConfigError
        A mask is missing, cannot be read, or is not of integers of this shape.
    """
    if not source.is_dir():
        masks = _array(source)
        if masks.ndim != 3:
            raise ConfigError(
                f"{source}: an array of shape {masks.shape}; masks are (images, height, width)"
            )
        return list(masks)
    files = naturally_sorted(
        path.relative_to(source) for path in source.rglob("*") if path.suffix.lower() in SUFFIXES
    )
    if pictures is not None:
        files = _of_names(source, files, pictures)
    if not files:
        raise ConfigError(f"{source}: no mask found ({', '.join(SUFFIXES)} expected)")
    return [_mask(source / file) for file in files]


def _of_names(
    source: Path, files: Sequence[PurePath], pictures: Sequence[PurePath]
) -> list[PurePath]:
    """Return the file of each picture."""
    by_name: dict[str, PurePath] = {}
    for file in files:
        other = by_name.setdefault(file.with_suffix("").as_posix(), file)
        if other is not file:
            raise ConfigError(f"{source}: {other} and {file} are masks of one picture; remove one")
    names = [picture.with_suffix("").as_posix() for picture in pictures]
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ConfigError(
            f"{source}: {len(missing)} of {len(names)} pictures have no mask: {few(missing)}; "
            f"name each as its picture within its folder ({', '.join(SUFFIXES)})"
        )
    return [by_name[name] for name in names]


def _mask(path: Path) -> Mask:
    mask = _array(path) if path.suffix.lower() == ".npy" else _picture(path)
    if mask.ndim != 2:
        raise ConfigError(f"{path}: an array of shape {mask.shape}; a mask is (height, width)")
    return mask


def _picture(path: Path) -> Mask:
    try:
        with Image.open(path) as picture:
            mode, mask = picture.mode, np.asarray(picture)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as a mask: {error}") from error
    if mode not in CLASS_MODES:
        raise ConfigError(
            f"{path}: pixels are {mode}; the class of each is expected, gray or with a palette"
        )
    return mask.astype(np.uint8) if mode == "1" else mask


def _array(path: Path) -> Mask:
    try:
        mask: Any = read_arrays(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read as masks: {unreadable(error)}") from error
    if not isinstance(mask, np.ndarray) or mask.dtype.kind not in "iu":
        found = getattr(mask, "dtype", type(mask).__name__)
        raise ConfigError(f"{path}: masks are {found}, integers expected: a class for each pixel")
    return mask
