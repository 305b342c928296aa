"""How well a segmentation's classes cover those of its labels."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Array = np.ndarray[Any, Any]


def read_labels(file: Path, split: str) -> Array:
    """Return the class of each pixel, (images, height, width), of ``file``'s PNGs."""
    with np.load(file) as data:
        blobs, offsets = data["label_png"], data["label_offset"]
        rows = data[f"{split}_idx"]
    pictures = [blobs[offsets[row] : offsets[row + 1]].tobytes() for row in rows]
    return np.stack([np.asarray(Image.open(io.BytesIO(picture))) for picture in pictures])


def mean_iou(chosen: Array, labels: Array, classes: int) -> float:
    """Return the intersection over union, mean over the classes that the labels have.

    Parameters
    ----------
    chosen, labels
        (images, height, width) class of each pixel. Pixels that are labelled beyond ``classes``
        have none, and count for nothing.
    classes
        How many there are.
    """
    counted = labels < classes
    label, found = labels[counted].astype(np.int64), chosen[counted].astype(np.int64)
    by_label = np.bincount(label, minlength=classes)
    by_choice = np.bincount(found, minlength=classes)[:classes]
    both = np.bincount(label[label == found], minlength=classes)
    has = by_label > 0
    return float((both[has] / (by_label + by_choice - both)[has]).mean())
