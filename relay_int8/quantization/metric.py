"""A metric of a network's outputs: the user's function, and what it compares the outputs with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.errors import ConfigError, Int8Error

Array = npt.NDArray[Any]
Outputs = dict[str, Array]
ImageLabels = Sequence[Any] | Array
"""What a metric compares outputs with: one item an image."""
Metric = Callable[[Iterator[Outputs], Iterator[Any]], float]
"""Takes the outputs of some images, and their labels in the same order; higher is better.

The outputs of an image are a dictionary, output name -> array as the network gives it for batch 1.
Where there are no labels, the second iterator has the outputs of FP32, dictionaries of the same
names, shapes and dtypes.
"""

ROUNDING = 1e-9  # rounding error of the difference of two shares: 0.615 - 0.605 is more than 0.01


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundMetric:
    """A metric with its name and the labels of the images.

    Parameters
    ----------
    function
        Called with the outputs of FP32 first, then with those of quantized networks.
    name
        As messages and reports have it.
    labels
        One for each image, in the order of the data: whatever the function takes. None: it
        compares with the outputs of FP32.
    """

    function: Metric
    name: str
    labels: ImageLabels | None = None

    def require_images(self, count: int, data: str) -> None:
        """Refuse labels of another number of images than ``data`` has.

        Raises
        ------
        ConfigError
            Saying how many there are of each.
        """
        if self.labels is not None and len(self.labels) != count:
            raise ConfigError(
                f"{count} images, but {len(self.labels)} labels; give one for each image of {data}"
            )

    def of_every_second(self, first: int) -> BoundMetric:
        """Return it for every second image from number ``first`` (0 or 1) on."""
        if self.labels is None:
            return self
        return replace(self, labels=[self.labels[i] for i in range(first, len(self.labels), 2)])

    def score(self, outputs: Iterable[Outputs], references: Iterable[Any]) -> float:
        """Return what the function says of outputs, beside their labels or those of FP32.

        Raises
        ------
        ConfigError
            If it raises, returns no finite number, or leaves images out.
        """
        given = iter(outputs)
        try:
            value = self.function(given, iter(references))
        except Int8Error:
            raise
        except Exception as error:  # whatever the user's function raises
            raise ConfigError(
                f"the metric {self.name} raised {type(error).__name__}: {error}; it is called with "
                "two iterators, of one item an image: the outputs, a dictionary of output name -> "
                "array of batch 1, and the labels, or the outputs of FP32 where there are none"
            ) from error
        number = self._number(value)
        if next(given, None) is not None:
            raise ConfigError(
                f"the metric {self.name} did not look at the outputs of all images; labels of its "
                "own may be too few: give those of all images as labels, and zip with strict=True"
            )
        return number

    def _number(self, value: Any) -> float:
        shape = getattr(value, "shape", ())
        try:
            if isinstance(value, str) or len(shape):
                raise TypeError
            number = float(value)
        except (TypeError, ValueError) as error:
            found = f"{type(value).__name__}{f' of shape {tuple(shape)}' if len(shape) else ''}"
            raise ConfigError(
                f"the metric {self.name} returned a {found}; a number is expected, the higher the "
                "better"
            ) from error
        if not math.isfinite(number):
            raise ConfigError(
                f"the metric {self.name} returned {number}; a finite number is expected, the "
                "higher the better"
            )
        return number


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """What a metric says of FP32, of the default and of what was chosen by it.

    All of the same images, none of which made the integers that it is judged with; ``images`` is
    how many.
    """

    metric: str
    images: int
    fp32: float
    default: float
    chosen: float

    def __str__(self) -> str:
        return (
            f"{self.metric}, on {self.images} images not seen: FP32 {self.fp32:.4f}, default "
            f"{self.default:.4f}, chosen {self.chosen:.4f}"
        )


def mean_score(scores: Sequence[float], images: Sequence[int]) -> float:
    """Return the mean of the scores of several sets of images, by how many each has."""
    return float(np.average(scores, weights=images))
