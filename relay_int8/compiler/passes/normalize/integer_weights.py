"""Quantized weights of a layer, and the same integers with other scales.

Before:  w = dequantize(quantize(reals, s), s)
After:   w = dequantize(quantize(reals * a, s * |a|), s * |a|)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.compiler.passes.normalize.weight_pair import weight_pair
from relay_int8.graph.dataflow import constant, operator
from relay_int8.graph.rewriting import Scope
from relay_int8.numerics.qparams import BIAS_LIMIT

AXES = {"nn.conv2d": 0, "matmul": 1}
"""Layer -> the axis of its weights that counts output channels."""


@dataclass(frozen=True)
class IntegerWeights:
    """Constant weights with a scale for each output channel and no zero point.

    Parameters
    ----------
    reals
        Multiples of the scales, float32.
    scales
        One for each index of ``axis``.
    of_input
        The scale of what the layer reads.
    """

    reals: np.ndarray
    scales: np.ndarray
    axis: int
    of_input: float

    def takes(self, factors: np.ndarray, bias: np.ndarray) -> bool:
        """Whether they can be multiplied by factors of channels, and a bias be added."""
        scales = self._scaled(factors)
        is_lowest = self.reals < -127.5 * self._along(self.scales)
        flips = is_lowest & (self._along(factors) < 0)  # 128 is no int8
        fits = np.abs(bias) <= BIAS_LIMIT * self.of_input * scales.astype(np.float64)
        return bool(
            np.isfinite(scales).all() and (scales > 0).all() and fits.all() and not flips.any()
        )

    def scaled(self, scope: Scope, factors: np.ndarray) -> relax.Expr:
        """Return the pair of what they are, times factors of channels."""
        reals = (self.reals * self._along(factors)).astype(np.float32)
        return weight_pair(scope, reals, self._scaled(factors), self.axis)

    def _scaled(self, factors: np.ndarray) -> np.ndarray:
        sizes = np.where(factors == 0, 1.0, np.abs(factors))
        return np.asarray(self.scales * sizes, np.float32)

    def _along(self, values: np.ndarray) -> np.ndarray:
        return values.reshape([-1 if axis == self.axis else 1 for axis in range(self.reals.ndim)])


def integer_weights(scope: Scope, layer: relax.Call) -> IntegerWeights | None:
    """Return the weights of a convolution or product of integers, or None."""
    x, pair = (scope.value(argument) for argument in layer.args[:2])
    axis = AXES.get(operator(layer))
    if axis is None or operator(x) != "dequantize" or operator(pair) != "dequantize":
        return None
    quantize = scope.value(pair.args[0])
    if operator(quantize) != "quantize" or int(pair.attrs.axis) != axis:
        return None
    reals, scales, zeros = (constant(argument) for argument in quantize.args)
    of_input = constant(x.args[1])
    if any(array is None for array in (reals, scales, zeros, of_input)):
        return None
    assert reals is not None and scales is not None and zeros is not None and of_input is not None
    is_whole = reals.ndim > axis and scales.shape == (reals.shape[axis],)
    if not is_whole or zeros.any() or of_input.size != 1 or str(zeros.dtype) != "int8":
        return None
    return IntegerWeights(reals, scales, axis, float(of_input.reshape(())))
