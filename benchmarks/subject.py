"""What is measured: a network of the zoo, what calibrates it, and what it is run on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from benchmarks import zoo

INPUT = "input"
BATCH = "N"  # the open extent of the model file
CALIBRATION_SEED, INPUT_SEED = 1, 2


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One network at one image size.

    Parameters
    ----------
    network
        A key of ``benchmarks.zoo.NETWORKS``.
    image_size
        Height and width of the input.
    calibration_images
        How many images each system calibrates with; all get the same.
    """

    network: str
    image_size: int
    calibration_images: int = 8

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.network}-{self.image_size}-c{self.calibration_images}"

    def calibration(self) -> list[np.ndarray]:
        """Return the calibration images, float32 (1, 3, h, w) each."""
        rng = np.random.default_rng(CALIBRATION_SEED)
        return [_images(rng, 1, self.image_size) for _ in range(self.calibration_images)]

    def images(self, batch: int) -> np.ndarray:
        """Return what is run, float32 (batch, 3, h, w); none of it calibrates."""
        return _images(np.random.default_rng(INPUT_SEED), batch, self.image_size)

    def model(self, batch: int | str = BATCH) -> onnx.ModelProto:
        """Return the float32 network, its batch open unless given."""
        return zoo.build(self.network, image_size=self.image_size, batch=batch)


def subject(network: str, image_size: int | None, calibration_images: int) -> Subject:
    """Return a network at ``image_size``, or at the size it was published with."""
    size = zoo.NETWORKS[network].image_size if image_size is None else image_size
    return Subject(network=network, image_size=size, calibration_images=calibration_images)


def _images(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Return pictures of mean square near 1 that are smooth, as photographs are, plus noise."""
    coarse = rng.standard_normal((count, 3, 8, 8), "float32")
    rows = np.arange(size) * 8 // size
    return coarse[:, :, rows][:, :, :, rows] + 0.3 * rng.standard_normal(
        (count, 3, size, size), "float32"
    )
