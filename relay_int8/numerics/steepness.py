"""How much more a function adds to the error of a byte than its own result's rounding does.

A function of bytes is a table: rounding its argument moves the result by up to half of what lies
between neighbouring entries. Where these differ by d steps of the result, rounding the argument
adds an error of ``d**2 / 12`` of such steps squared, and rounding the result 1 / 12. So the mean of
``d**2`` says what the argument costs: 1 to 5 for sigmoid, tanh, swish, GELU and squares over the
ranges that they have, hundreds for a sine of many periods. Pure NumPy, no graph in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.numerics.qparams import QParams

Array = npt.NDArray[Any]


def steepness(function: Callable[[Array], Array], x: QParams, y: QParams) -> float:
    """Return the mean square of the steps of ``y`` between neighbouring entries of a table.

    Parameters
    ----------
    function
        Of float64 arrays, finite for all that ``x`` stands for.
    x, y
        Of its argument and its result; what lies beyond the range of ``y`` is cut.
    """
    low, high = x.clamp
    arguments = np.arange(low, high + 1, dtype=np.float64) * float(x.scale)
    with np.errstate(all="ignore"):
        entries = np.clip(function(arguments) / float(y.scale), *y.clamp.astype(np.float64))
    return float(np.square(np.diff(entries)).mean())
