"""Notice labels that do not fit: of other images, or counted from another number."""

from __future__ import annotations

from typing import Any

import numpy as np

from relay_int8.notices import notice
from relay_int8.numerics.interval import wilson

Array = np.ndarray[Any, Any]
ENOUGH = 20  # images; with fewer, any accuracy may be luck


def tell_of_labels(chosen: Array, labels: Array, classes: int) -> None:
    """Give a notice where labels seem shifted by one, or accuracy is what guessing gives.

    Parameters
    ----------
    chosen
        Classes that the network chose, integers (n,).
    labels
        The right ones, integers (n,).
    classes
        How many there are.
    """
    images = len(labels)
    if images < ENOUGH or classes < 2:
        return
    labels = labels.astype(np.int64)  # bytes have no -1
    top1 = float(np.mean(chosen == labels))
    for shift, verb in ((1, "added to"), (-1, "taken from")):
        shifted = float(np.mean(chosen == labels + shift))
        if wilson(shifted, images)[0] > wilson(top1, images)[1]:
            notice(
                f"top-1 is {top1:.4f}, and would be {shifted:.4f} with 1 {verb} every label; do "
                "labels or outputs count a background class?"
            )
            return
    # Two standard deviations above the mean of guesses, and one image, as few may be expected.
    mean = images / classes
    if top1 * images <= mean + 2 * (mean * (1 - 1 / classes)) ** 0.5 + 1:
        notice(
            f"top-1 is {top1:.4f}, which guessing reaches with {classes} classes: do the labels "
            "stand in the order of the images (pictures are read by their names, 2.jpg before "
            "10.jpg; labels in a .csv file go by name), and is the preprocessing that of training?"
        )
