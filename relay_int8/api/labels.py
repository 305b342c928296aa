"""The class of each image, or of each pixel of it, that an accuracy is measured on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePath

from relay_int8.argument_types import checked
from relay_int8.data import labels, masks
from relay_int8.data.labels import Labels
from relay_int8.data.masks import Mask
from relay_int8.data.picture_folder import PictureFolder
from relay_int8.data.preprocessing import Preprocessing


@checked
def read_labels(source: str | Path, data: str | Path) -> Labels:
    """Return the class of each image of ``data``, in the order in which they are read.

    Parameters
    ----------
    source
        A ``.npy`` file, or text with one class a line, in the order of the images; for pictures
        also a ``.csv`` file of file name and class, a ``.json`` file ``{"name": class}``, or their
        folder, if its subfolders are the classes.
    data
        The images: a folder of pictures, or a file of arrays.

    Returns
    -------
    numpy.ndarray
        Integers, one for each image.

    Raises
    ------
    ConfigError
        The labels cannot be read, are no integers, or a picture has none.
    """
    pictures = _pictures(Path(data))
    return labels.read_labels(Path(source), pictures)


@checked
def read_masks(source: str | Path, data: str | Path) -> Sequence[Mask]:
    """Return the class of each pixel of each image of ``data``, for the metric mean-iou.

    Parameters
    ----------
    source
        A ``.npy`` file, (images, height, width), in the order of the images; or a folder of
        ``.png`` files, with a palette or gray, or ``.npy`` files: named as the pictures, or in
        order of their names where the images are arrays.
    data
        The images: a folder of pictures, or a file of arrays.

    Returns
    -------
    sequence of numpy.ndarray
        (height, width) integers, one for each image.

    Raises
    ------
    ConfigError
        A mask is missing, cannot be read, or is not of integers.
    """
    return masks.read_masks(Path(source), _pictures(Path(data)))


def _pictures(data: Path) -> list[PurePath] | None:
    """Return the paths of pictures within their folder, None where data is an array."""
    if not data.is_dir():
        return None
    paths = PictureFolder(data, Preprocessing()).paths()
    return [path.relative_to(data) for path in paths]
