"""Real multipliers -> the constants of a kernel: float32, or 31 bits and a shift.

Reals have the names of the float form: m, m_neg (accumulators below zero), m_r (residual), m_a and
m_b (operands of an addition, a maximum or a minimum; below zero for what is subtracted), m_y (from
real numbers to steps, behind a function; there is no fixed-point form).
Fixed-point, each is a multiplier with a shift of its own, but where products are added:

=====================  =====================================================================
residual of a          m, m_neg and m_r share a shift, channel by channel, that of the
convolution            largest: the products are added and rounded together; m_r is m_add
add, tpu-mlir          m_a and m_b share a shift, as in TPU-MLIR's manual
add, gemmlowp, tflite  TensorFlow Lite's: with ``t = 2 * max(|m_a|, |m_b|)``, operands shifted
                       left by 20 are multiplied by ``m_a / t`` and ``m_b / t``, their sum
                       by ``m = t / 2**20``
=====================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError
from relay_int8.numerics.fixed_point import quantize_multiplier, quantize_together
from schedules.spec import Binary, Requantizing, Spec, shift_of

Array = npt.NDArray[Any]
Constants = dict[str, np.ndarray]
MULTIPLIERS = ("m", "m_neg", "m_r", "m_a", "m_b", "m_y", "b_y")
ADD_HEADROOM = 20


def multiplier_constants(spec: Spec, reals: Mapping[str, Array]) -> Constants:
    """Return the constants that ``spec`` has of float64 multipliers ``reals``.

    Raises
    ------
    CalibrationError
        A real is beyond float32, or beyond what 31 bits and a shift can hold.
    """
    if not isinstance(spec, Requantizing) or spec.rounding is None:
        return {name: float_multiplier(real) for name, real in reals.items()}
    if isinstance(spec, Binary) and spec.operator == "add":
        return _addition(spec, **reals)
    if "m_r" in reals:
        shape = np.shape(reals["m"])
        return _together(
            {
                "m_add" if name == "m_r" else name: np.broadcast_to(real, shape)
                for name, real in reals.items()
            }
        )
    return _each(reals)


def fixed_constants(spec: Spec, params: Constants) -> Constants:
    """Return constants of a fixed-point ``spec`` that stand for those of its float form."""
    reals = {name: params[name].astype(np.float64) for name in MULTIPLIERS if name in params}
    clamp = params["clamp"].astype(spec.constant_dtype("clamp"))
    constants = params | multiplier_constants(spec, reals) | {"clamp": clamp}
    return {name: constants[name] for name in spec.params}


def float_multiplier(real: Array | float) -> Array:
    """Return float64 multipliers as float32, rounded once."""
    real = np.asarray(real, np.float64)
    with np.errstate(over="ignore", under="ignore"):
        rounded = real.astype(np.float32)
    if not np.isfinite(rounded).all():
        raise CalibrationError(
            f"multiplier {real[~np.isfinite(rounded)][0]} found; a finite float32 is needed: "
            "the output scale is far too small for its inputs"
        )
    return rounded


def _each(reals: Mapping[str, Array]) -> Constants:
    constants: Constants = {}
    for name, real in reals.items():
        fixed = quantize_multiplier(real)
        constants |= {name: fixed.multiplier, shift_of(name): fixed.shift}
    return constants


def _together(reals: Mapping[str, Array]) -> Constants:
    fixed = quantize_together(list(reals.values()))
    named = {name: one.multiplier for name, one in zip(reals, fixed, strict=True)}
    return named | {"shift": fixed[0].shift}


def _addition(spec: Binary, m_a: Array, m_b: Array) -> Constants:
    if spec.rounding == "tpu-mlir":
        return _together({"m_a": m_a, "m_b": m_b})
    twice = 2 * np.maximum(np.abs(m_a), np.abs(m_b))
    return _each({"m_a": m_a / twice, "m_b": m_b / twice, "m": twice / 2.0**ADD_HEADROOM})
