"""Confidence interval (Wilson) of a share that was measured on few images."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""Quantile 0.975 of the normal distribution: two-sided intervals of 95 %."""


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a probability, by what a sample of it showed.

    Parameters
    ----------
    share
        Found in the sample, 0 to 1.
    count
        Size of the sample, at least 1.

    Notes
    -----
    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927:
    the probabilities that are at most z of their own standard deviations from the share. Unlike the
    textbook's interval it stays within 0 and 1 and is no point where every image was right.
    """
    z = Z_95
    middle = share + z * z / (2 * count)
    reach = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    scale = 1 + z * z / count
    return max(0.0, (middle - reach) / scale), min(1.0, (middle + reach) / scale)
