"""What a method is."""

from __future__ import annotations

from typing import ClassVar, Protocol

from relay_int8.calibration.histogram import Histogram


class Method(Protocol):
    """Choose a range from a histogram.

    ``str(method)`` is its name with its parameters, as tables record it.
    """

    name: ClassVar[str]
    needs_counts: ClassVar[bool]

    def thresholds(self, histogram: Histogram) -> tuple[float, float]:
        """Return (low, high) on the histogram's axis.

        Over ``|x|`` low is zero and high is the threshold T. Values beyond saturate. The caller
        cuts the result to the range that was observed; a method with ``needs_counts`` False reads
        the grid alone.
        """
        ...
