"""Metrics that come with the project: of the first output, fractions from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.errors import ConfigError
from relay_int8.quantization.metric import Metric, Outputs
from relay_int8.report.accuracy import require_labels
from relay_int8.report.label_check import tell_of_labels

Array = npt.NDArray[Any]
TOP1, MEAN_IOU, AGREEMENT = "top-1", "mean-iou", "agreement"
NO_CLASS = 255  # of a pixel, where outputs are classes and not a score for each


class Top1:
    """The share of images whose largest value is the label; labels are integers.

    What is said of labels that seem to be others' is said once, of FP32, whose outputs come first.
    """

    def __init__(self) -> None:
        self._has_told = False

    def __call__(self, outputs: Iterator[Outputs], labels: Iterator[Any]) -> float:
        """Return the share; a ConfigError if a label is none of the output's classes."""
        rights, chosen, classes = np.array([*labels]), [], 0
        for y in outputs:
            scores = _first(y)
            classes = scores.size
            chosen.append(int(scores.argmax()))
        require_labels(rights, len(chosen), classes)
        if not self._has_told:
            tell_of_labels(np.array(chosen), rights, classes)
            self._has_told = True
        return float(np.mean(chosen == rights))


def mean_iou(outputs: Iterator[Outputs], masks: Iterator[Any]) -> float:
    """Return the intersection over union, mean over the classes that the masks have.

    Pixels of all images are counted together.

    Parameters
    ----------
    outputs
        (1, classes, height, width) scores, or integer classes (1, height, width) or
        (1, 1, height, width).
    masks
        (height, width) integers, the class of each pixel. Those that are no class of the output
        (negative, or as many as there are or more; of integer outputs 255) count for nothing.
    """
    counts = np.zeros((3, NO_CLASS), np.int64)  # pixels of the mask, of the output, of both
    for y, mask in zip(outputs, masks, strict=True):
        scores = _first(y)
        chosen, classes = _pixel_classes(scores, MEAN_IOU)
        mask = np.asarray(mask)
        if mask.shape != chosen.shape or mask.dtype.kind not in "iu":
            raise ConfigError(
                f"a mask of shape {mask.shape}, {mask.dtype}, for an output of shape "
                f"{scores.shape}; give the class of each pixel, integers of shape {chosen.shape}"
            )
        counted = (mask >= 0) & (mask < classes)
        right, found = mask[counted].astype(np.int64), chosen[counted].astype(np.int64)
        for row, values in enumerate((right, found[found >= 0], right[right == found])):
            counts[row] += np.bincount(values, minlength=NO_CLASS)[:NO_CLASS]
    by_mask, by_output, both = counts
    present = by_mask > 0
    if not present.any():
        raise ConfigError("no pixel of the masks is of a class; give masks of integers from 0")
    return float((both / np.maximum(by_mask + by_output - both, 1))[present].mean())


def agreement(outputs: Iterator[Outputs], references: Iterator[Outputs]) -> float:
    """Return the share of images, or of pixels, of the class that FP32 gives them.

    Outputs are (1, classes) scores, or such of pixels, as :func:`mean_iou` takes them.
    """
    pairs = zip(outputs, references, strict=True)
    return float(np.mean([np.mean(_choice(y) == _choice(wanted)) for y, wanted in pairs]))


METRICS: Mapping[str, Callable[[], Metric]] = {
    TOP1: Top1,
    MEAN_IOU: lambda: mean_iou,
    AGREEMENT: lambda: agreement,
}
"""Makes each of them. Those but ``AGREEMENT`` need labels, which that does not take."""


def _first(outputs: Outputs) -> Array:
    return np.asarray(next(iter(outputs.values())))


def _choice(outputs: Outputs) -> Array:
    """Return the class of an image, or of each pixel."""
    y = _first(outputs)
    if y.dtype.kind in "iu":
        return y
    if 1 < y.size == max(y.shape):
        return np.array(y.argmax())
    return _pixel_classes(y, AGREEMENT)[0]


def _pixel_classes(y: Array, metric: str) -> tuple[Array, int]:
    """Return (height, width) classes that an output chooses, and how many there are."""
    if y.dtype.kind in "iu" and y.ndim in (3, 4) and y.size == y.shape[-2] * y.shape[-1]:
        return y.reshape(y.shape[-2:]), NO_CLASS
    if y.ndim == 4 and y.shape[0] == 1 and y.dtype.kind == "f" and 1 < y.shape[1] <= NO_CLASS:
        return y[0].argmax(axis=0), y.shape[1]
    raise ConfigError(
        f"{metric} takes scores (1, classes, height, width), of up to {NO_CLASS} classes, or "
        f"integer classes of pixels; the first output is {y.dtype} {y.shape}: give a function of "
        "your own"
    )
