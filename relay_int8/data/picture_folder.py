"""A folder of pictures, read one by one."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt
from PIL import Image as Picture
from PIL import ImageOps

from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import CalibrationError, ConfigError

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
# Everything Pillow raises for a file that is damaged, truncated or no picture.
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, Picture.DecompressionBombError)


@dataclass(frozen=True)
class PictureFolder:
    """Pictures of a folder and its subfolders, ordered by path, whatever the file system's order.

    Parameters
    ----------
    path
        The folder; files without a picture's suffix are passed over.
    preprocessing
        From picture to input.
    """

    path: Path
    preprocessing: Preprocessing

    def __call__(self) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield (path, input of batch 1).

        Raises
        ------
        CalibrationError
            The folder has no picture, or one cannot be read; the message names it.
        """
        paths = self.paths()
        if not paths:
            raise CalibrationError(
                f"{self.path}: no picture found ({', '.join(SUFFIXES)} expected); name a folder of "
                "calibration pictures"
            )
        for path in paths:
            yield str(path), self._read(path)

    def __len__(self) -> int:
        """Return how many pictures there are."""
        return len(self.paths())

    def paths(self) -> list[Path]:
        """Return the pictures in the order they are read."""
        found = (path for path in self.path.rglob("*") if path.suffix.lower() in SUFFIXES)
        return sorted((path for path in found if path.is_file()), key=lambda path: path.as_posix())

    def _read(self, path: Path) -> npt.NDArray[Any]:
        try:
            with warnings.catch_warnings(), Picture.open(path) as picture:
                # Large, or with odd metadata: its pixels are what counts.
                warnings.simplefilter("ignore")
                return self.preprocessing(ImageOps.exif_transpose(picture))
        except _DAMAGE as error:
            raise CalibrationError(
                f"{path}: cannot be read as a picture: {error}; remove or replace it"
            ) from error
        except ConfigError as error:
            raise CalibrationError(f"{path}: {error}") from error
