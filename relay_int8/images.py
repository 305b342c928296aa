"""Images for a network: opened, and the first one looked at."""

from __future__ import annotations

from pathlib import Path

from tvm import IRModule

from relay_int8.calibration.data import Batches, Dataset, open_data
from relay_int8.calibration.preprocessing import Preprocessing
from relay_int8.interface import open_inputs


def open_images(
    mod: IRModule, data: str | Path | Batches, preprocessing: Preprocessing | None = None
) -> Dataset:
    """Return the images of ``data`` (:func:`relay_int8.calibration.open_data`) for a network.

    Raises
    ------
    CalibrationError
        If there is none, or the first does not fit: said before anything is compiled.
    """
    images = open_data(data, open_inputs(mod), preprocessing)
    next(iter(images))
    return images
