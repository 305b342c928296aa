"""The class of each image that an accuracy is measured on."""

from __future__ import annotations

from pathlib import Path

from relay_int8.data import labels
from relay_int8.data.labels import Labels
from relay_int8.data.picture_folder import PictureFolder
from relay_int8.data.preprocessing import Preprocessing


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
    source, data = Path(source), Path(data)
    if not data.is_dir():
        return labels.read_labels(source)
    paths = PictureFolder(data, Preprocessing()).paths()
    return labels.read_labels(source, [path.relative_to(data) for path in paths])
