"""Specs of element-wise operators, which read the elements at the same index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import DType, OperatorSpec, QType, Shape
from schedules.spec.requantizing import Requantizing
from schedules.template import ScheduleError

QUOTIENTS = ("div", "rdiv")
"""Operators of :class:`Binary` that divide."""
ZERO_DIVISOR = 2.0**-64
"""What a divisor of zero steps is taken as: x / 0 saturates by the sign of x, and 0 / 0 is 0."""


@dataclass(frozen=True, kw_only=True)
class Binary(Requantizing):
    """Elementwise operator of two activations; b may have extent 1 where a has more.

    add, integer: ``t = fma(float32(b - z_b), m_b, float32(a - z_a) * m_a)``, rounded and clamped;
    a multiplier below zero subtracts. mul, integer: ``requantize((a - z_a) * (b - z_b), m)``.
    div, integer: ``t = (float32(a - z_a) / float32(b - z_b)) * m``, rounded and clamped, a divisor
    of zero taken as ``ZERO_DIVISOR``; rdiv: b by a, as b is the one that is broadcast.
    max, min, integer: that of ``requantize(a - z_a, m_a)`` and ``requantize(b - z_b, m_b)``.
    float32: the operator, then clamp; where y is an integer, what :class:`Quantize` makes of the
    operator's result.
    Params: add, max, min integer: m_a float32 (1,), m_b float32 (1,), z int32 (3,) = z_a, z_b, z_y,
    clamp; mul, div, rdiv integer: m float32 (1,), z, clamp; float32: clamp, or those of Quantize.
    Fixed-point: mul, max, min as float, multiplier and shift. add as TensorFlow Lite (gemmlowp,
    tflite), multipliers below zero too: each operand
    ``shift_right(((q - z) << 20) * m_a, shift_a)``, then the sum by m and shift; add as TPU-MLIR:
    ``shift_right((a - z_a) * m_a + (b - z_b) * m_b, shift)``. All int32 (1,). div, rdiv have none.
    """

    kind: ClassVar[str] = "binary"
    operator: Literal["add", "mul", "div", "rdiv", "max", "min"]
    a_shape: Shape
    b_shape: Shape
    a: DType
    b: DType
    y: DType

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounding and self.operator in QUOTIENTS:
            raise ScheduleError(
                f"{self.operator}: a quotient has no fixed-point form, {self.requantize} found; "
                'requantize="float" takes it'
            )

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("a", "b")

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.a == "float32":
            return ("clamp",) if self.y == "float32" else ("s", "z", "clamp")
        if self.operator in ("mul", *QUOTIENTS):
            return (*self.scaled_by("m"), "z", "clamp")
        if self.rounding == "tpu-mlir" and self.operator == "add":
            return ("m_a", "m_b", "shift", "z", "clamp")
        of_sum = ("m",) if self.rounding and self.operator == "add" else ()
        return (*self.scaled_by("m_a", "m_b", *of_sum), "z", "clamp")

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("a", "b" or "y")."""
        return self.b_shape if name == "b" else self.a_shape


@dataclass(frozen=True, kw_only=True)
class Bound(Requantizing):
    """The greater or the lesser of an integer tensor in another scale and a constant.

    ``y = max(requantize(x - z_x, m), bound)``, or min; bound may have extent 1 where x has more.
    Params: m float32 (1,), z int32 (2,) = z_x, z_y, clamp, bound of type y, row major; fixed-point,
    int32: m, shift.
    """

    kind: ClassVar[str] = "bound"
    operator: Literal["max", "min"]
    dims: Shape
    bound_shape: tuple[int, ...]
    x: QType
    y: QType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return (*self.scaled_by("m"), "z", "clamp", "bound")

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``."""
        return self.y if name == "bound" else super().constant_dtype(name)


@dataclass(frozen=True, kw_only=True)
class Rescale(Requantizing):
    """Move an integer tensor to another scale, clamping: also ReLU, clip, LeakyReLU, PReLU alone.

    ``y = requantize(x - z_x, m)``; with ``leaky``, m_neg[channel] where ``x - z_x`` is negative.
    Params: m float32 (1,), m_neg float32 (channels,) if leaky, z int32 (2,) = z_x, z_y, clamp;
    fixed-point, int32: m, shift, m_neg, shift_neg.
    float32 x: ``x``, or ``x * alpha[channel]`` where leaky and negative, then clamp; params: alpha
    float32 (channels,) if leaky, clamp. Channels are axis 1.
    """

    kind: ClassVar[str] = "rescale"
    dims: Shape
    x: DType
    y: DType
    leaky: bool = False

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return (*(("alpha",) if self.leaky else ()), "clamp")
        return (*self.scaled_by("m", *(("m_neg",) if self.leaky else ())), "z", "clamp")

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims


@dataclass(frozen=True, kw_only=True)
class Table(OperatorSpec):
    """Any unary function of an integer tensor: ``y = table[x]``, or ``table[x + 128]`` for int8 x.

    Params: table (256,) of type y; ``by_channel``, (c * 256,): one for each index of axis 1.
    """

    kind: ClassVar[str] = "table"
    dims: Shape
    x: QType
    y: QType
    by_channel: bool = False

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("table",)

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims


@dataclass(frozen=True, kw_only=True)
class Quantize(OperatorSpec):
    """``y = int(min(max(rint(x / s), clamp[0]), clamp[1])) + z``; x is float32.

    Params: s float32 (1,), z int32 (1,), clamp float32 (2,).
    """

    kind: ClassVar[str] = "quantize"
    dims: Shape
    y: QType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("s", "z", "clamp")

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32" if name == "x" else self.y


@dataclass(frozen=True, kw_only=True)
class Dequantize(OperatorSpec):
    """``y = float32(x - z) * s``. Params: s float32 (1,), z int32 (1,)."""

    kind: ClassVar[str] = "dequantize"
    dims: Shape
    x: QType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("s", "z")

    @property
    def zero_points(self) -> tuple[str, ...]:
        """Names of the activations whose zero points z holds."""
        return ("x",)

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return self.x if name == "x" else "float32"
