"""What a kernel computes: one frozen dataclass per operator, no target, no layout, no tile.

Shapes are logical (NCHW for images). A kernel's arguments are, in this order, ``tensors`` (the
activations), ``params`` (constants) and the output. Constants that belong to a model (multipliers,
biases, zero points, clamp bounds, tables) are arguments, never fields: two layers of equal shape
are one spec, and share one tuned kernel.

Arithmetic (docs/design.md): ``requantize(a, m) = int(min(max(rint(float32(a) * m), clamp[0]),
clamp[1])) + z_y`` with ``clamp = (qmin - z_y, qmax - z_y)`` as float32 and rint half-to-even.
Where ``y`` is "float32" the result is ``min(max(float32(a) * m, clamp[0]), clamp[1])``.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tvm import tirx

QType = Literal["uint8", "int8"]
DType = Literal["uint8", "int8", "float32"]
Size = int | tirx.Var  # a batch may be symbolic
Pair = tuple[int, int]
Padding = tuple[int, int, int, int]  # top, left, bottom, right


@dataclass(frozen=True, kw_only=True)
class Conv2d:
    """Two-dimensional convolution with its epilogue.

    Integer x: ``acc = bias + sum (x - z_x) * w`` in int32, padding is z_x;
    ``y = requantize(acc, m)``, or with ``leaky`` ``requantize(acc, m if acc >= 0 else m_neg)``,
    or with ``residual`` ``t = fma(float32(r - z_r), m_r, float32(acc) * m)``, rounded and clamped.
    float32 x: ``acc = bias + sum x * w``, then ``acc * alpha`` where leaky and negative, then
    ``+ r``, then clamp.

    Integer params: w int8 (oc, ic/groups, kh, kw); bias int32 (oc,); m float32 (oc,); m_neg float32
    (oc,) if leaky; m_r float32 (1,) if residual; z int32 (3,) = z_x, z_y, z_r; clamp float32 (2,).
    float32 params: w float32, bias float32 (oc,), alpha float32 (oc,) if leaky, clamp float32 (2,).
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
    leaky: bool = False

    @property
    def out_size(self) -> Pair:
        """Height and width of the output."""
        top, left, bottom, right = self.padding
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilation
        rows = (self.height + top + bottom - dh * (kh - 1) - 1) // sh + 1
        cols = (self.width + left + right - dw * (kw - 1) - 1) // sw + 1
        return rows, cols

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x", "r") if self.residual else ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return ("w", "bias", *(("alpha",) if self.leaky else ()), "clamp")
        optional = (*(("m_neg",) if self.leaky else ()), *(("m_r",) if self.residual else ()))
        return ("w", "bias", "m", *optional, "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("x", "r" or "y")."""
        if name == "x":
            return (self.batch, self.in_channels, self.height, self.width)
        return (self.batch, self.out_channels, *self.out_size)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return str({"x": self.x, "r": self.residual, "y": self.y}[name])


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Matrix product with constant weights, ``y[rows, n]`` from ``x[rows, k]``; epilogue as Conv2d.

    Params as Conv2d without residual: w (n, k), bias (n,), m (n,), m_neg (n,) if leaky,
    z int32 (3,), clamp (2,); for float32 x: w, bias, alpha if leaky, clamp.
    """

    kind: ClassVar[str] = "dense"
    rows: Size
    n: int
    k: int
    x: DType
    y: DType
    leaky: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return ("w", "bias", *(("alpha",) if self.leaky else ()), "clamp")
        return ("w", "bias", "m", *(("m_neg",) if self.leaky else ()), "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return (self.rows, self.k if name == "x" else self.n)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"x": self.x, "y": self.y}[name]


@dataclass(frozen=True, kw_only=True)
class Pool2d:
    """Max or average pooling; global pooling is a kernel of the input's size.

    max: the largest of the window; padding never wins. x and y have one type and one scale.
    avg, integer: ``requantize(sum (x - z_x), m[oh, ow])``, padding adds zero.
    avg, float32: ``sum x * m``.

    ``out_size`` is given, so that ceil_mode is the caller's business; windows may hang over the
    bottom and right edges. Params: none for max; avg integer: m float32 (oh, ow), z int32 (2,) =
    z_x, z_y, clamp float32 (2,); avg float32: m float32 (oh, ow).
    """

    kind: ClassVar[str] = "pool2d"
    reduce: Literal["max", "avg"]
    batch: Size
    channels: int
    height: int
    width: int
    out_size: Pair
    kernel: Pair
    strides: Pair
    dilation: Pair = (1, 1)
    padding: Pair  # top, left; the other sides follow from out_size
    x: DType
    y: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.reduce == "max":
            return ()
        return ("m",) if self.x == "float32" else ("m", "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("x" or "y")."""
        size = (self.height, self.width) if name == "x" else self.out_size
        return (self.batch, self.channels, *size)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"x": self.x, "y": self.y}[name]


@dataclass(frozen=True, kw_only=True)
class Binary:
    """Elementwise add or mul of two activations; b may have extent 1 where a has more.

    add, integer: ``t = fma(float32(b - z_b), m_b, float32(a - z_a) * m_a)``, rounded and clamped.
    mul, integer: ``requantize((a - z_a) * (b - z_b), m)``. float32: the operator, then clamp.
    Params: add integer: m_a float32 (1,), m_b float32 (1,), z int32 (3,) = z_a, z_b, z_y, clamp;
    mul integer: m float32 (1,), z, clamp; float32: clamp.
    """

    kind: ClassVar[str] = "binary"
    operator: Literal["add", "mul"]
    a_shape: tuple[Size, ...]
    b_shape: tuple[Size, ...]
    a: DType
    b: DType
    y: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("a", "b")

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.a == "float32":
            return ("clamp",)
        multipliers = ("m_a", "m_b") if self.operator == "add" else ("m",)
        return (*multipliers, "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("a", "b" or "y")."""
        return self.b_shape if name == "b" else self.a_shape

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"a": self.a, "b": self.b, "y": self.y}[name]


@dataclass(frozen=True, kw_only=True)
class Rescale:
    """Move an integer tensor to another scale, clamping: also ReLU, clip, LeakyReLU, PReLU alone.

    ``y = requantize(x - z_x, m)``; with ``leaky``, m_neg[channel] where ``x - z_x`` is negative.
    Params: m float32 (1,), m_neg float32 (channels,) if leaky, z int32 (2,) = z_x, z_y, clamp.
    float32 x: ``x``, or ``x * alpha[channel]`` where leaky and negative, then clamp; params: alpha
    float32 (channels,) if leaky, clamp. Channels are axis 1.
    """

    kind: ClassVar[str] = "rescale"
    dims: tuple[Size, ...]
    x: DType
    y: DType
    leaky: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.x == "float32":
            return (*(("alpha",) if self.leaky else ()), "clamp")
        return ("m", *(("m_neg",) if self.leaky else ()), "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"x": self.x, "y": self.y}[name]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Any unary function of an integer tensor: ``y = table[x]``, or ``table[x + 128]`` for int8 x.

    Params: table (256,) of type y.
    """

    kind: ClassVar[str] = "table"
    dims: tuple[Size, ...]
    x: QType
    y: QType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("table",)

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"x": self.x, "y": self.y}[name]


@dataclass(frozen=True, kw_only=True)
class Quantize:
    """``y = int(min(max(rint(x / s), clamp[0]), clamp[1])) + z``; x is float32.

    Params: s float32 (1,), z int32 (1,), clamp float32 (2,).
    """

    kind: ClassVar[str] = "quantize"
    dims: tuple[Size, ...]
    y: QType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("s", "z", "clamp")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32" if name == "x" else self.y


@dataclass(frozen=True, kw_only=True)
class Dequantize:
    """``y = float32(x - z) * s``. Params: s float32 (1,), z int32 (1,)."""

    kind: ClassVar[str] = "dequantize"
    dims: tuple[Size, ...]
    x: QType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("s", "z")

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return self.x if name == "x" else "float32"


@dataclass(frozen=True, kw_only=True)
class Concat:
    """Concatenate along ``axis``; all of one type and scale. Activations are named x0, x1, ..."""

    kind: ClassVar[str] = "concat"
    shapes: tuple[tuple[Size, ...], ...]
    axis: int
    x: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return tuple(f"x{i}" for i in range(len(self.shapes)))

    @property
    def params(self) -> tuple[str, ...]:
        """It reads no constants."""
        return ()

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name``."""
        if name != "y":
            return self.shapes[int(name[1:])]
        total = sum(shape[self.axis] for shape in self.shapes)
        first = self.shapes[0]
        return (*first[: self.axis], total, *first[self.axis + 1 :])

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return self.x


@dataclass(frozen=True, kw_only=True)
class Move:
    """Integers (or floats) moved, none computed: y[i] = x[f(i)], or the fill value outside of x.

    move: how the logical output index maps to the input's:
    "copy" (layout change alone: a repack), "reshape" (equal row-major offsets),
    "transpose" (arguments: axes), "slice" (arguments: begins, then steps, each of x's rank),
    "pad" (arguments: widths before each axis), "resize" (nearest of a 4-D image; arguments: none,
    ``x index = floor(y index * x size / y size)``).
    Params: fill, of type x, shape (1,), for "pad"; else none.
    """

    kind: ClassVar[str] = "move"
    move: Literal["copy", "reshape", "transpose", "slice", "pad", "resize"]
    x_shape: tuple[Size, ...]
    y_shape: tuple[Size, ...]
    arguments: tuple[int, ...] = ()
    x: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("fill",) if self.move == "pad" else ()

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return self.x_shape if name == "x" else self.y_shape

    def dtype(self, name: str) -> str:
        """Element type of x and y."""
        return self.x


@dataclass(frozen=True, kw_only=True)
class Observe:
    """A statistic of a float32 activation, for calibration.

    Lanes past the last channel are left out.

    range: y float32 (3,) = min, max, number of values that are not finite (those are left out).
    histogram: y int32 (bins,); ``bin = clip(int((v - low) * inverse), 0, bins - 1)`` in float32
    with ``v = |x|`` if ``absolute`` else x; values that are not finite are left out.
    Params: none for range; low float32 (1,), inverse float32 (1,) (1 / bin width) for histogram.
    """

    kind: ClassVar[str] = "observe"
    statistic: Literal["range", "histogram"]
    dims: tuple[Size, ...]
    bins: int = 0
    absolute: bool = False

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("low", "inverse") if self.statistic == "histogram" else ()

    def shape(self, name: str) -> tuple[Size, ...]:
        """Logical shape of activation ``name`` ("x" or "y")."""
        if name == "x":
            return self.dims
        return (self.bins,) if self.statistic == "histogram" else (3,)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "int32" if name == "y" and self.statistic == "histogram" else "float32"


Spec = (
    Conv2d
    | Dense
    | Pool2d
    | Binary
    | Rescale
    | Table
    | Quantize
    | Dequantize
    | Concat
    | Move
    | Observe
)
SPECS: dict[str, type[Spec]] = {
    cls.kind: cls
    for cls in (
        Conv2d,
        Dense,
        Pool2d,
        Binary,
        Rescale,
        Table,
        Quantize,
        Dequantize,
        Concat,
        Move,
        Observe,
    )
}


def to_json(spec: Spec) -> str:
    """Return ``spec`` as JSON text; symbolic sizes are written as their names."""
    fields = {"kind": spec.kind, **dataclasses.asdict(spec)}
    return json.dumps(fields, default=lambda size: size.name)


def from_json(text: str) -> Spec:
    """Return the spec that :func:`to_json` wrote; names become fresh symbolic sizes."""
    fields = json.loads(text)
    return SPECS[fields.pop("kind")](**{key: _tuples(value) for key, value in fields.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
