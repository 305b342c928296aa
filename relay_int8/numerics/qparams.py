"""Scales, zero points, multipliers and tables: pure NumPy, no graph in sight.

Every scale is rounded to float32 at birth; everything else is float64, rounded once: multipliers
where a kernel's constants are made (``numerics.multipliers``; docs/design.md, "Parameters").
Letters: ``x`` real, ``q`` integer, ``s`` scale, ``z`` zero point, ``w`` weight, ``b`` bias, ``m``
multiplier.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError, UnsupportedOpError
from schedules.spec import WeightType

Array = npt.NDArray[Any]
Scheme = Literal["u8", "s8", "asymmetric"]
PlannedScheme = Literal["u8", "s8", "asymmetric", "input"]
SCHEMES: tuple[Scheme, ...] = ("u8", "s8", "asymmetric")

WEIGHT_MAX = 127
WIDE_MAX = 255  # of weights of bytes less their zero point
BIAS_LIMIT = 2.0**30  # |b_q| stays below this: half of int32, the other half is for the products
SIGN = 128  # an int8 tensor is stored as uint8, so much higher, where instructions want that
SMALLEST_THRESHOLD = 2.0**-110  # below it a scale, or 1 / bin width, leaves normal float32


@dataclass(frozen=True)
class QParams:
    """How integers of one tensor stand for reals: ``x = s * (q - z)``.

    Parameters
    ----------
    scale
        Positive, finite float32.
    zero_point
        The integer that stands for zero, within qmin and qmax.
    qmin, qmax
        Smallest and largest integer the tensor takes; may be narrower than dtype.
    dtype
        "uint8" or "int8".
    """

    scale: np.float32
    zero_point: int
    qmin: int
    qmax: int
    dtype: Literal["uint8", "int8"]

    def __post_init__(self) -> None:
        info = np.iinfo(self.dtype)
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise CalibrationError(f"scale {self.scale} found; a positive finite one is needed")
        if not info.min <= self.qmin <= self.zero_point <= self.qmax <= info.max:
            raise CalibrationError(
                f"qmin {self.qmin}, zero point {self.zero_point}, qmax {self.qmax} found; "
                f"they must ascend within {self.dtype}"
            )

    @property
    def clamp(self) -> Array:
        """Bounds of ``q - z`` as kernels read them: float32 (2,)."""
        return np.array([self.qmin - self.zero_point, self.qmax - self.zero_point], np.float32)

    @property
    def unsigned(self) -> QParams:
        """The same reals as uint8: integers of int8 are so much higher then."""
        shift = SIGN if self.dtype == "int8" else 0
        ends = (self.zero_point + shift, self.qmin + shift, self.qmax + shift)
        return QParams(self.scale, *ends, "uint8")


def resolve_scheme(planned: PlannedScheme, low: float) -> Scheme:
    """Return the scheme of a tensor whose smallest value is ``low``.

    "input" stands for u8 where the data is never negative, else s8; the others for themselves.
    """
    if planned != "input":
        return planned
    return "s8" if low < 0 else "u8"


def activation(scheme: Scheme, low: float, high: float) -> QParams:
    """Return the parameters of an activation whose chosen range is [low, high].

    u8: ``s = high / 255``, z = 0. s8: ``s = max(-low, high) / 127``, z = 0, q in [-127, 127].
    asymmetric: u8 over [min(low, 0), max(high, 0)], ``s = (high - low) / 255``,
    ``z = rint(-low / s)``, so that zero is an integer. A range below 2**-110, as an all-zero tensor
    has, gets s = 1 and z = 0: whatever it holds rounds to zero.

    Raises
    ------
    CalibrationError
        The range is not finite or not ascending, or u8 is asked for a tensor below zero.
    """
    if not (np.isfinite([low, high]).all() and low <= high):
        raise CalibrationError(f"range [{low}, {high}] found; finite, ascending bounds are needed")
    if scheme == "u8":
        if low < 0:
            raise CalibrationError(f"range starts at {low}; u8 without zero point starts at zero")
        return QParams(_scale(float(high), 255), 0, 0, 255, "uint8")
    if scheme == "s8":
        return QParams(_scale(max(-float(low), float(high)), 127), 0, -127, 127, "int8")
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    scale = _scale(high - low, 255)
    zero_point = int(np.clip(np.rint(-low / np.float64(scale)), 0, 255))
    return QParams(scale, zero_point, 0, 255, "uint8")


def _scale(span: float, steps: int) -> np.float32:
    return np.float32(1) if span < SMALLEST_THRESHOLD else np.float32(span / steps)


def quantize(x: Array, params: QParams) -> Array:
    """Return the integers that stand for float32 ``x``: a true float32 division, half to even."""
    low, high = params.clamp
    t = np.clip(np.rint(np.asarray(x, np.float32) / params.scale), low, high)
    q: Array = (t.astype(np.int32) + params.zero_point).astype(params.dtype)
    return q


def constant_integer(value: float, params: QParams) -> int:
    """Return the integer for a number of the graph: a float64 division, half to even, clamped."""
    return int(constant_integers(np.array(value), params))


def constant_integers(values: Array, params: QParams) -> Array:
    """Return the integers for finite constants of the graph, as :func:`constant_integer` does."""
    steps = np.rint(np.asarray(values, np.float64) / np.float64(params.scale))
    z = params.zero_point
    q: Array = (np.clip(steps, params.qmin - z, params.qmax - z) + z).astype(params.dtype)
    return q


def weight_scales(w: Array, b: Array, s_x: np.float32) -> Array:
    """Return float32 (oc,): a scale per output channel that saturates no weight and no bias.

    ``s_w = max(max|w| / 127, |b| / (s_x * 2**30))``, and 1 where that is zero. Trained networks
    have dead channels with max|w| near 1e-30 and a bias near 1: without the second term their
    bias leaves int32.

    Parameters
    ----------
    w
        (oc, ...) real weights.
    b
        (oc,) real bias.
    s_x
        Scale of the activation they multiply.
    """
    _require_finite(w, "weight")
    _require_finite(b, "bias")
    largest = np.abs(_rows(w)).max(axis=1, initial=0.0)
    by_bias = np.abs(np.asarray(b, np.float64)) / (np.float64(s_x) * BIAS_LIMIT)
    with np.errstate(over="ignore", under="ignore"):
        scales: Array = np.maximum(largest / WEIGHT_MAX, by_bias).astype(np.float32)
    if not np.isfinite(scales).all():
        channel = int(np.argmin(np.isfinite(scales)))
        raise CalibrationError(
            f"channel {channel}: bias {b[channel]} over input scale {s_x} has no float32 weight "
            "scale; leave the layer float"
        )
    return np.where(scales > 0, scales, np.float32(1))


def quantize_weight(w: Array, s_w: Array, dtype: WeightType = "int8") -> Array:
    """Return integer weights, shaped as ``w``: ``rint(w / s_w[oc])`` in float64, saturated.

    With the scales of :func:`weight_scales` they are in [-127, 127]; a model that was quantized
    elsewhere may hold -128, or in int16 [-255, 255]: bytes less their zero point.
    """
    q = np.rint(_rows(w) / s_w.astype(np.float64)[:, None])
    low, high = (-WEIGHT_MAX - 1, WEIGHT_MAX) if dtype == "int8" else (-WIDE_MAX, WIDE_MAX)
    return np.clip(q, low, high).astype(dtype).reshape(w.shape)


def quantize_bias(b: Array, s_x: np.float32, s_w: Array) -> Array:
    """Return int32 (oc,): ``rint(b / (s_x * s_w))`` in float64."""
    q: Array = np.rint(np.asarray(b, np.float64) / (np.float64(s_x) * s_w.astype(np.float64)))
    if not (np.abs(q) < 2.0**31).all():
        channel = int(np.argmin(np.abs(q) < 2.0**31))
        raise CalibrationError(
            f"channel {channel}: bias {b[channel]} is {q[channel]:.0f} steps of the accumulator, "
            "beyond int32; use weight_scales, or leave the layer float"
        )
    return q.astype(np.int32)


def accumulator_refusal(q_w: Array, q_b: Array, x: QParams) -> str | None:
    """Say why an int32 accumulator could overflow, or None where it cannot.

    Per channel ``max(|qmin_x|, |qmax_x|, 255) * sum|q_w| + |q_b| < 2**31``. The bound holds for
    ``x - z_x`` as for ``x``, and so for kernels that fold z_x into the bias or shift signs by 128.
    """
    widest = max(abs(x.qmin), abs(x.qmax), 255)
    magnitude = np.abs(q_w.reshape(len(q_w), -1).astype(np.int64)).sum(axis=1)
    bound = widest * magnitude + np.abs(q_b.astype(np.int64))
    channel = int(bound.argmax()) if bound.size else 0
    if not bound.size or bound[channel] < 2**31:
        return None
    return f"accumulator of channel {channel} may reach {bound[channel]}, int32 ends at {2**31 - 1}"


def multiplier(s_x: np.float32, s_w: Array, s_y: np.float32) -> Array:
    """Return float64 (oc,): ``s_x * s_w / s_y``, from accumulator to output steps."""
    real: Array = np.float64(s_x) * s_w.astype(np.float64) / np.float64(s_y)
    return real


def leaky_multiplier(s_x: np.float32, s_w: Array, s_y: np.float32, alpha: Array) -> Array:
    """Return float64 (oc,): ``alpha * (s_x * s_w / s_y)``, for accumulators below zero.

    alpha, a scalar or (oc,), meets the unrounded multiplier: one rounding, at the end.
    """
    real: Array = np.asarray(alpha, np.float64) * multiplier(s_x, s_w, s_y)
    return real


def rescale_multiplier(s_x: np.float32, s_y: np.float32) -> Array:
    """Return float64 (1,): ``s_x / s_y``.

    For a residual or an operand of add (m_r, m_a, m_b), for concat inputs and for rescale.
    """
    return np.array([np.float64(s_x) / np.float64(s_y)])


def rescale_multiplier_leaky(s_x: np.float32, s_y: np.float32, alpha: Array) -> Array:
    """Return float64, shaped as alpha: ``alpha * (s_x / s_y)``, for LeakyReLU and PReLU alone."""
    real = np.float64(s_x) / np.float64(s_y)
    return np.atleast_1d(np.asarray(alpha, np.float64) * real)


def product_multiplier(s_a: np.float32, s_b: np.float32, s_y: np.float32) -> Array:
    """Return float64 (1,): ``s_a * s_b / s_y``, for the product of two activations."""
    return np.array([np.float64(s_a) * np.float64(s_b) / np.float64(s_y)])


def quotient_multiplier(s_a: np.float32, s_b: np.float32, s_y: np.float32) -> Array:
    """Return float64 (1,): ``s_a / (s_b * s_y)``, for an activation divided by another."""
    return np.array([np.float64(s_a) / (np.float64(s_b) * np.float64(s_y))])


def average_multipliers(s_x: np.float32, s_y: np.float32, counts: Array) -> Array:
    """Return float64, shaped as counts: ``s_x / (s_y * count)`` for average pooling."""
    real: Array = np.float64(s_x) / (np.float64(s_y) * counts.astype(np.float64))
    return real


def unary_table(function: Callable[[Array], Array], x: QParams, y: QParams) -> Array:
    """Return (256,) of y's type: entry ``q`` (``q + 128`` for int8) is ``function`` of integer q.

    ``function`` maps float64 to float64; its values are divided by s_y in float64, rounded half to
    even and clamped to y's qmin and qmax. All 256 entries are made, also those that x's own qmin
    and qmax exclude.

    Raises
    ------
    UnsupportedOpError
        The function is not finite somewhere.
    """
    refusal = table_refusal(function, x)
    if refusal:
        raise UnsupportedOpError(f"{refusal}: leave the operator float")
    _, values = _of_all_integers(function, x)
    entries = np.rint(values / np.float64(y.scale)) + y.zero_point
    table: Array = np.clip(entries, y.qmin, y.qmax).astype(y.dtype)
    return table


def table_refusal(function: Callable[[Array], Array], x: QParams) -> str | None:
    """Say which integer of ``x`` has no finite value of ``function``, or None."""
    reals, values = _of_all_integers(function, x)
    finite = np.isfinite(values)
    if finite.all():
        return None
    bad = int(np.argmin(finite))
    return (
        f"the function is {values[bad]} at {reals[bad]}, which one of its input's integers stands "
        "for; a table needs finite values"
    )


def _of_all_integers(function: Callable[[Array], Array], x: QParams) -> tuple[Array, Array]:
    """Return the real of every integer of x's type, and the function of it, in float64."""
    info = np.iinfo(x.dtype)
    reals: Array = (np.arange(info.min, info.max + 1) - x.zero_point) * np.float64(x.scale)
    with np.errstate(all="ignore"):
        return reals, np.asarray(function(reals), np.float64)


def _rows(w: Array) -> Array:
    rows: Array = w.reshape(len(w), -1).astype(np.float64)
    return rows


def _require_finite(values: Array, name: str) -> None:
    finite = np.isfinite(values)
    if not finite.all():
        raise CalibrationError(f"{name} holds {np.asarray(values)[~finite][0]}; repair the model")
