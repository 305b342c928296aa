"""The epilogue of a convolution or dense layer: what follows the sums, in registers.

Expressions over one lane or a vector of lanes alike: the lanes are those of the accumulator. See
``schedules.spec`` for the formulas. rint is applied after the clamp, which is the same for the
whole-number bounds a quantized output has, and lets LLVM convert without a rounding instruction.
"""

from __future__ import annotations

from typing import Protocol

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.fixed_point import to_integer, wide
from schedules.bodies.steps import Steps
from schedules.bodies.vectors import broadcast, cast, fma, lanes, rint, splat, vector
from schedules.spec import GATES, GATES_ALONE, Activation, Conv2d, Dense, OpenConv2d, Rounding


class Load(Protocol):
    """Read a parameter: element ``index``, or (None) the lanes of the channels at hand."""

    def __call__(self, name: str, index: int | None = None, /) -> Expr:
        """Return parameter ``name``."""


def type_refusal(spec: Conv2d | Dense, *, half: bool = False, weights: str = "int8") -> str | None:
    """Say why a kernel, of ``half`` products or not, cannot join the types of ``spec``.

    ``weights`` is the type of those that it takes where x is of integers.
    """
    if spec.x != "float32" and spec.weights != weights:
        return f"its weights are {spec.weights}, not {weights}"
    if spec.half != half:
        wanted, actual = ("float16", "another type") if spec.half else ("another type", "float16")
        return f"the products are to be of {wanted}, not of {actual}"
    floats = {name: spec.dtype(name) == "float32" for name in (*spec.tensors, "y")}
    if floats["x"] and not floats["y"]:
        return f"x is float32 and y {spec.y}; quantize apart"
    if "r" in floats and floats["r"] != floats["x"]:
        return f"x is {spec.x} and the residual {spec.dtype('r')}; both must be floats, or integers"
    return None


def epilogue(
    spec: Conv2d | Dense | OpenConv2d,
    acc: Expr,
    load: Load,
    r: Expr | None = None,
) -> Expr:
    """Return the lanes of y that follow from accumulators that hold the bias.

    Parameters
    ----------
    acc
        int32 lanes; float32 where x is.
    load
        Reads constants: those of ``PER_CHANNEL`` with ``index=None``, others by index.
    r
        The residual's lanes, in its own type, where ``spec`` has one.
    """
    if isinstance(spec, OpenConv2d) or spec.x == "float32":
        return _clamp(_float_epilogue(spec, acc, load, r), load)
    if spec.rounding:
        return _fixed_epilogue(spec, spec.rounding, acc, load, r)
    count = lanes(acc)
    sum_first = isinstance(spec, Conv2d) and spec.sum_first
    m = load("m") if sum_first else _by_sign(spec, acc, load, "m", "m_neg")
    scaled = cast(acc, "float32") * m
    if spec.activation and not sum_first:
        scaled = _in_steps(spec, activated(spec.activation, scaled), load)
    if r is not None:
        centred = cast(r, "int32") - broadcast(load("z", 2), count)
        scaled = fma(cast(centred, "float32"), broadcast(load("m_r", 0), count), scaled)
    if isinstance(spec, Conv2d) and spec.sum_first:
        scaled = _of_sum(spec, scaled, load)
    bounds, zero_point = (load("clamp", 0), load("clamp", 1)), load("z", 1)
    return requantized(scaled, zero_point, bounds, spec.y)


def activated(name: Activation, x: Expr) -> Expr:
    """Return function ``name`` of float32 lanes, bit for bit as ``schedules.spec.activations``."""
    gate, count = GATES[name], lanes(x)

    def _number(value: float) -> Expr:
        return splat(value, "float32", count)

    zero, one = _number(0), _number(1)
    steps = Steps()
    x = steps.hold(x)
    negative = steps.hold(_negative(x))
    argument = steps.hold(tirx.max(negative, _number(-gate.limit)))
    p = _number(gate.series[0])
    for coefficient in gate.series[1:]:
        p = fma(p, argument, _number(coefficient))
    p = steps.hold(p)
    for _ in range(gate.squarings - 1):
        p = steps.hold(p * p)
    rest = p if gate.squarings else one
    if name in GATES_ALONE:
        return steps.then(tirx.Select(x >= zero, fma(zero - p, rest, one), p * rest))
    return steps.then(fma(negative, p * rest, tirx.max(x, zero)))


def _negative(x: Expr) -> Expr:
    """Return ``-|x|``: float32 lanes with their sign set."""
    count = lanes(x)
    sign = splat(-(1 << 31), "int32", count)
    bits = tirx.reinterpret(vector("int32", count), x) | sign
    return tirx.reinterpret(vector("float32", count), bits)


def requantized(scaled: Expr, z: Expr, bounds: tuple[Expr, Expr], dtype: str) -> Expr:
    """Return float lanes in steps of y as y: rounded, clamped, moved by ``z``; floats clamped."""
    count = lanes(scaled)
    low, high = (broadcast(bound, count) for bound in bounds)
    if dtype == "float32":
        return tirx.min(tirx.max(scaled, low), high)
    rounded = rint(tirx.min(scaled, high))
    clamped = tirx.max(rounded, broadcast(cast(bounds[0], "int32"), count))
    return cast(clamped + broadcast(z, count), dtype)


def _fixed_epilogue(
    spec: Conv2d | Dense, rounding: Rounding, acc: Expr, load: Load, r: Expr | None
) -> Expr:
    count = lanes(acc)
    product = wide(acc) * wide(_by_sign(spec, acc, load, "m", "m_neg"))
    if r is None:
        shift = _by_sign(spec, acc, load, "shift", "shift_neg")
    else:
        shift = load("shift")
        centred = cast(r, "int32") - broadcast(load("z", 2), count)
        product = product + wide(centred) * wide(load("m_add"))
    low, high = (broadcast(load("clamp", i), count) for i in range(2))
    zero_point = broadcast(load("z", 1), count)
    return to_integer(product, shift, zero_point, (low, high), spec.y, rounding)


def _by_sign(spec: Conv2d | Dense, acc: Expr, load: Load, name: str, below_zero: str) -> Expr:
    """Return constant ``name``, or where ``spec`` is leaky and ``acc`` negative ``below_zero``."""
    if not spec.leaky:
        return load(name)
    is_positive = acc >= splat(0, "int32", lanes(acc))
    return tirx.Select(is_positive, load(name), load(below_zero))


def _float_epilogue(
    spec: Conv2d | Dense | OpenConv2d, acc: Expr, load: Load, r: Expr | None
) -> Expr:
    kept = acc if r is None else acc + r
    if not spec.leaky:
        return kept
    if isinstance(spec, Conv2d | OpenConv2d) and spec.sum_first:
        return _of_sum(spec, kept, load)
    alpha = load("alpha")
    scaled = acc * alpha if r is None else fma(acc, alpha, r)
    return tirx.Select(acc < splat(0, "float32", lanes(acc)), scaled, kept)


def _of_sum(spec: Conv2d | OpenConv2d, total: Expr, load: Load) -> Expr:
    """Return a slope or a function of sums with the residual, float32 lanes."""
    if isinstance(spec, Conv2d) and spec.activation:
        return _in_steps(spec, activated(spec.activation, total), load)
    steps = Steps()
    total = steps.hold(total)
    zero = splat(0, "float32", lanes(total))
    return steps.then(tirx.Select(total < zero, total * load("alpha"), total))


def _in_steps(spec: Conv2d | Dense, values: Expr, load: Load) -> Expr:
    """Return real values of a function in steps of y, moved where ``spec`` is shifted."""
    return fma(values, load("m_y"), load("b_y")) if spec.shifted else values * load("m_y")


def _clamp(value: Expr, load: Load) -> Expr:
    count = lanes(value)
    low, high = (broadcast(load("clamp", i), count) for i in range(2))
    return tirx.min(tirx.max(value, low), high)
