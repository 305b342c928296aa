"""How far rounding moves the arguments of gates, which open within some four units around zero.

A gate of a recurrent layer is a sigmoid or a tanh of a sum of products: what matters is the sum's
error in units, not beside its own size. Rounding adds to the sum of an output channel, by the steps
``s_x`` of the input and ``s_w`` of its weights, errors of a variance of

    s_x**2 / 12 * sum of w**2  +  s_w**2 / 12 * x**2

where x is the largest value of the input, the others being taken for zero. Pure NumPy, no graph in
sight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def gate_noise(w: Array, s_w: Array, s_x: float, largest: float) -> float:
    """Return the deviation of what rounding adds to the arguments, a mean over output channels.

    Parameters
    ----------
    w
        (outputs, inputs) real weights.
    s_w
        (outputs,) their steps.
    s_x, largest
        Of the input: its step and its largest magnitude.
    """
    squares = np.square(w, dtype=np.float64).sum(axis=1)
    variances = s_x**2 * squares + (s_w.astype(np.float64) * largest) ** 2
    return float(np.sqrt(variances.mean() / 12))
