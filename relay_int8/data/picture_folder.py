"""A folder of pictures, read one by one."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
from PIL import Image as Picture
from PIL import ImageOps

from relay_int8.data.natural_order import naturally_sorted
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.messages import unreadable
from relay_int8.notices import notice

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
AHEAD = 4  # pictures that are decoded before they are asked for
MOST_KEPT_BYTES = 160_000_000  # some 260 inputs of 3x224x224
# Everything Pillow raises for a file that is damaged, truncated or no picture.
_DAMAGE = (OSError, SyntaxError, ValueError, EOFError, Picture.DecompressionBombError)


@dataclass(frozen=True)
class PictureFolder:
    """Pictures of a folder and its subfolders, ordered by path, 2.jpg before 10.jpg.

    Parameters
    ----------
    path
        The folder; files without a picture's suffix are passed over.
    preprocessing
        From picture to input.
    keeps
        Keep inputs in memory for later passes, up to ``MOST_KEPT_BYTES``: decoding a picture takes
        as long as a small network does.
    """

    path: Path
    preprocessing: Preprocessing
    keeps: bool = False
    _kept: dict[Path, npt.NDArray[Any]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

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
                "pictures"
            )
        # Pictures are decoded while the network runs on those before. By one thread: what Pillow
        # warns of is silenced for the whole process, which two threads would undo for each other.
        with ThreadPoolExecutor(1) as pool:
            waiting: deque[tuple[Path, Future[npt.NDArray[Any]]]] = deque()
            try:
                for path in paths:
                    waiting.append((path, pool.submit(self._input, path)))
                    if len(waiting) > AHEAD:
                        yield _next(waiting)
                while waiting:
                    yield _next(waiting)
            finally:
                pool.shutdown(cancel_futures=True)

    def __len__(self) -> int:
        """Return how many pictures there are."""
        return len(self.paths())

    def _input(self, path: Path) -> npt.NDArray[Any]:
        """Return the input of batch 1 that a picture becomes, or became before."""
        if path in self._kept:
            return self._kept[path]
        x = read_picture(path, self.preprocessing)
        if self.keeps and sum(kept.nbytes for kept in self._kept.values()) < MOST_KEPT_BYTES:
            x.setflags(write=False)
            self._kept[path] = x
        return x

    def paths(self) -> list[Path]:
        """Return the pictures in the order they are read."""
        pictures = (path for path in self.path.rglob("*") if path.suffix.lower() in SUFFIXES)
        files = (path.relative_to(self.path) for path in pictures if path.is_file())
        return [self.path / path for path in naturally_sorted(files)]


def _next(
    waiting: deque[tuple[Path, Future[npt.NDArray[Any]]]],
) -> tuple[str, npt.NDArray[Any]]:
    path, picture = waiting.popleft()
    return str(path), picture.result()


def read_picture(path: Path, preprocessing: Preprocessing) -> npt.NDArray[Any]:
    """Return the input of batch 1 that a picture becomes.

    Raises
    ------
    CalibrationError
        It cannot be read, or is too small to be cropped.
    """
    try:
        with warnings.catch_warnings(), Picture.open(path) as picture:
            # Large, or with odd metadata: its pixels are what counts.
            warnings.simplefilter("ignore")
            upright = ImageOps.exif_transpose(picture)
            x = preprocessing(upright)
    except _DAMAGE as error:
        raise CalibrationError(
            f"{path}: cannot be read as a picture: {unreadable(error)}; remove or replace it"
        ) from error
    except ConfigError as error:
        raise CalibrationError(f"{path}: {error}") from error
    _tell_of_cropping(upright.size, preprocessing)
    return x


def _tell_of_cropping(size: tuple[int, int], preprocessing: Preprocessing) -> None:
    """Say what resizing does to a picture that has the network's size already.

    The text is the same for all folders, so that a thousand folders of classes are one line.
    """
    resize, crop = preprocessing.resize, preprocessing.crop
    if crop is None or resize in (None, crop, min(size)) or size != (crop[1], crop[0]):
        return
    notice(
        f"pictures are {crop[0]} x {crop[1]} already; they are resized to {resize} and "
        "cropped to that size again, which loses their borders; if they were cropped before, use a "
        "preprocessing without resize and crop"
    )
