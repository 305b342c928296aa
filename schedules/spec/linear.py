"""Convolution and matrix product with constant weights, with their epilogues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.activations import GATES, Activation
from schedules.spec.operator_spec import (
    DType,
    Padding,
    Pair,
    Shape,
    Size,
    WeightType,
    static_size,
    window_positions,
)
from schedules.spec.requantizing import Requantizing
from schedules.template import ScheduleError

PER_CHANNEL = ("bias", "m", "shift", "m_neg", "shift_neg", "m_add", "m_y", "b_y", "alpha")
"""Constants with one element for each output channel, but for the weights."""


ZERO_POINTS = ("x", "y", "r")
"""Of both; that of the residual is there, and 0, where none is added."""


@dataclass(frozen=True, kw_only=True)
class Conv2d(Requantizing):
    """Two-dimensional convolution with its epilogue.

    Integer x: ``acc = bias + sum (x - z_x) * w`` in int32, padding is z_x;
    ``y = requantize(acc, m)``, or with ``leaky`` ``requantize(acc, m if acc >= 0 else m_neg)``,
    or with ``residual`` ``t = fma(float32(r - z_r), m_r, float32(acc) * m)``, rounded and clamped;
    or with ``activation`` (``schedules.spec.activations``), whose argument and result are real
    numbers, ``t = activation(float32(acc) * m) * m_y``, rounded and clamped, ``t`` with a residual
    ``fma(float32(r - z_r), m_r, activation(float32(acc) * m) * m_y)``.
    With ``sum_first`` leaky and activation are of the sum with the residual, ``s = fma(float32(r -
    z_r), m_r, float32(acc) * m)``: ``t = s * alpha`` where leaky and s < 0, or ``activation(s) *
    m_y``. With ``shifted`` the product of the activation with m_y is ``fma(activation(.), m_y,
    b_y)``.
    float32 x: ``acc = bias + sum x * w``, then ``acc * alpha`` where leaky and negative, then
    ``+ r``, or the sum before the slope with ``sum_first``, then clamp. With ``half``, for float32
    x alone, x and w are rounded to float16 (half to even, infinite from 65520) before they are
    multiplied, exactly, in float32.

    Integer params: w int8 (oc, ic/groups, kh, kw), or with ``weights`` int16 in [-255, 255], which
    are bytes less a zero point; bias int32 (oc,); m float32 (oc,); m_neg float32 (oc,) if leaky;
    m_r float32 (1,) if residual; m_y, and b_y if shifted, float32 (oc,) with an activation; alpha
    float32 (oc,), not m_neg, if leaky and ``sum_first``; z int32 (3,) = z_x, z_y, z_r; clamp
    float32 (2,).
    float32 params: w float32, bias float32 (oc,), alpha float32 (oc,) if leaky, clamp float32 (2,).
    Fixed-point: ``y = shift_right(acc * m, shift)``, m_neg and shift_neg where leaky and acc < 0;
    with ``residual`` ``shift_right(acc * m + (r - z_r) * m_add, shift)``, m_neg at the same shift.
    Params m, shift, m_neg, shift_neg, m_add int32 (oc,); no m_r.
    """

    kind: ClassVar[str] = "conv2d"
    batch: Size
    in_channels: int
    height: int
    width: int
    out_channels: int
    kernel: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    x: DType
    y: DType
    residual: DType | None = None
    sum_first: bool = False
    leaky: bool = False
    half: bool = False
    activation: Activation | None = None
    shifted: bool = False
    weights: WeightType = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_activation(self)
        _check_order(self)

    @property
    def out_size(self) -> Pair:
        """Height and width of the output."""
        size = (self.height, self.width)
        return window_positions(size, self.kernel, self.strides, self.dilation, self.padding)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x", "r") if self.residual else ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return ("w", "bias", *(("alpha",) if self.leaky else ()), "clamp")
        slopes = (("alpha",) if self.sum_first else ("m_neg",)) if self.leaky else ()
        if not self.residual:
            return ("w", "bias", *self.scaled_by("m", *slopes), *_steps(self), "z", "clamp")
        addend = ("m_add", "shift") if self.rounding else ("m_r",)
        return ("w", "bias", "m", *slopes, *addend, *_steps(self), "z", "clamp")

    @property
    def zero_points(self) -> tuple[str, ...]:
        """Names of the activations whose zero points z holds."""
        return ZERO_POINTS

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``, one of ``params``."""
        return self.weights if _is_integer_weight(self, name) else super().constant_dtype(name)

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x", "r" or "y")."""
        if name == "x":
            return (self.batch, self.in_channels, self.height, self.width)
        return (self.batch, self.out_channels, *self.out_size)

    @property
    def multiplications(self) -> int:
        """How many products it sums up; taps in the padding are left out."""
        filters = self.in_channels // self.groups * self.out_channels
        return static_size(self.batch) * filters * self._taps(0) * self._taps(1)

    def _taps(self, axis: int) -> int:
        """Return how many taps along an axis meet the image, over all output positions."""
        size = (self.height, self.width)[axis]
        return sum(
            0 <= i * self.strides[axis] - self.padding[axis] + tap * self.dilation[axis] < size
            for i in range(self.out_size[axis])
            for tap in range(self.kernel[axis])
        )

    @property
    def r(self) -> DType | None:
        """Element type of the residual."""
        return self.residual


@dataclass(frozen=True, kw_only=True)
class Dense(Requantizing):
    """Matrix product with constant weights, ``y[rows, n]`` from ``x[rows, k]``; epilogue as Conv2d.

    Params as Conv2d without residual: w (n, k), bias (n,), m (n,), m_neg (n,) if leaky, m_y (n,)
    with an activation, and b_y (n,) if shifted, z int32 (3,), clamp (2,); for float32 x: w, bias,
    alpha if leaky, clamp.
    ``half`` and ``weights`` as Conv2d.
    """

    kind: ClassVar[str] = "dense"
    rows: Size
    n: int
    k: int
    x: DType
    y: DType
    leaky: bool = False
    half: bool = False
    activation: Activation | None = None
    shifted: bool = False
    weights: WeightType = "int8"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_activation(self)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return ("w", "bias", *(("alpha",) if self.leaky else ()), "clamp")
        factors = ("m", *(("m_neg",) if self.leaky else ()))
        return ("w", "bias", *self.scaled_by(*factors), *_steps(self), "z", "clamp")

    @property
    def zero_points(self) -> tuple[str, ...]:
        """Names of the activations whose zero points z holds."""
        return ZERO_POINTS

    @property
    def multiplications(self) -> int:
        """How many products it sums up."""
        return static_size(self.rows) * self.n * self.k

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``, one of ``params``."""
        return self.weights if _is_integer_weight(self, name) else super().constant_dtype(name)

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return (self.rows, self.k if name == "x" else self.n)


def _is_integer_weight(spec: Conv2d | Dense, name: str) -> bool:
    return name == "w" and spec.x != "float32"


def _steps(spec: Conv2d | Dense) -> tuple[str, ...]:
    """Return the multipliers that take real numbers to steps of y, where there are such."""
    shifts = ("b_y",) if spec.shifted else ()
    return ("m_y", *shifts) if spec.activation else ()


def _check_activation(spec: Conv2d | Dense) -> None:
    """Raise a ScheduleError where an activation is unknown, or beside what it cannot be with."""
    if spec.activation is None:
        if spec.shifted:
            raise ScheduleError(f"{spec.kind}: shifted takes an activation, whose values are moved")
        return
    if spec.activation not in GATES:
        raise ScheduleError(
            f"{spec.kind}: activation {spec.activation!r} is unknown; known are {', '.join(GATES)}"
        )
    beside = {
        "float32 x or y": "float32" in (spec.x, spec.y),
        "a slope": spec.leaky,
        f"the rounding {spec.rounding}": spec.rounding is not None,
    }
    misfits = [name for name, is_there in beside.items() if is_there]
    if misfits:
        raise ScheduleError(
            f"{spec.kind}: {spec.activation} in the epilogue has no form with {misfits[0]}; "
            "compute it behind the kernel"
        )


def _check_order(spec: Conv2d) -> None:
    """Raise a ScheduleError where a slope or a function cannot be of the sum with a residual."""
    if not spec.sum_first:
        return
    if spec.residual is None or not (spec.leaky or spec.activation):
        raise ScheduleError("conv2d: sum_first takes a residual, and a slope or an activation")
    if spec.rounding:
        raise ScheduleError(
            f"conv2d: a slope of the sum with a residual has no form with the rounding "
            f"{spec.rounding}; compute it behind the kernel"
        )
