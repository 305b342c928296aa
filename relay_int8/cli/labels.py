"""Labels of the command line: a file, or the folders that the pictures lie in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from relay_int8.data.labels import Labels


def labels_of(source: Path, data: Path) -> Labels:
    """Return the class of each image of ``data``, in the order in which they are read."""
    from relay_int8.data.labels import read_labels
    from relay_int8.data.picture_folder import PictureFolder
    from relay_int8.data.preprocessing import Preprocessing

    if not data.is_dir():
        return read_labels(source)
    paths = PictureFolder(data, Preprocessing()).paths()
    return read_labels(source, [path.relative_to(data) for path in paths])
