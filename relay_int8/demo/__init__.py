"""A trained network that comes with the package: handwritten digits, 8 x 8 pixels, ten classes.

``scripts/train_demo_model.py`` made the files from scikit-learn's copy of the UCI digits; 0.9888 of
the 800 test images, which training never saw, are classified right in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

MODEL = Path(__file__).with_name("digits_resnet.onnx")
IMAGES = Path(__file__).with_name("digits.npz")


@dataclass(frozen=True)
class Digits:
    """Images as the network wants them, float32 (n, 1, 8, 8) from 0 to 1.

    Attributes
    ----------
    calibration
        300 images, of those the network was trained on.
    test, labels
        800 other images and which digit each shows.
    """

    calibration: np.ndarray
    test: np.ndarray
    labels: np.ndarray


def load_images() -> Digits:
    """Return the demo's images."""
    with np.load(IMAGES) as files:
        # Pixels are stored as 0 to 16.
        images = {
            key: files[key][:, None].astype("float32") / 16 for key in ("calibration", "test")
        }
        return Digits(images["calibration"], images["test"], files["labels"])
