"""Images for a network: opened, and the first one looked at; or single pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relay_int8.argument_types import checked
from relay_int8.data.dataset import Dataset, open_data
from relay_int8.data.picture_folder import PictureFolder, read_picture
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.sources import Batches
from relay_int8.data.tensor_info import TensorInfo


def open_images(
    inputs: Sequence[TensorInfo],
    data: str | Path | Batches,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """Return the images of ``data`` for a network of ``inputs``, the first one looked at.

    Inputs of which none has an open batch are those of a network that takes them as a whole. They
    are read in several passes: inputs that pictures become are kept, as far as memory allows.
    :func:`relay_int8.calibration.open_data` says in which forms they may come.

    Raises
    ------
    CalibrationError
        If there is none, or the first does not fit: said before anything is compiled.
    """
    whole = all(info.shape[:1] != (-1,) for info in inputs)
    images = open_data(data, inputs, preprocessing, whole=whole)
    if isinstance(images.batches, PictureFolder):
        images = replace(images, batches=replace(images.batches, keeps=True))
    next(iter(images))
    return images


@checked
def open_pictures(
    paths: Sequence[str | Path], inputs: Sequence[TensorInfo], preprocessing: Preprocessing
) -> Dataset:
    """Return single pictures as images of a network with one input, in the order of ``paths``.

    Parameters
    ----------
    paths
        Files of pictures.
    inputs
        The network's inputs.
    preprocessing
        From picture to input.

    Raises
    ------
    CalibrationError
        While iterating: a picture cannot be read, is too small, or does not fit the input.
    """
    files = [Path(path) for path in paths]
    return Dataset(
        lambda: ((str(file), read_picture(file, preprocessing)) for file in files), inputs
    )
