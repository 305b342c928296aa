"""The integers an integer operator gives: accumulate exactly, then one requantization.

An accumulator is int64 (checked against int32) with the real value of one step, kept as two
float64 factors, ``s / count``, because the contract divides once: ``M = s / (s_y * count)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.oracle import attention, fixed, operators
from tests.oracle.arithmetic import Array, Params, along, fma, multiplier, round_and_clamp, scaled
from tests.oracle.gates import gated
from tests.oracle.graph import Node, nodes_read
from tests.oracle.matching import Match, evaluate, is_filled, is_view, is_weight

INT32_END = 2**31
BEYOND = 2**40  # steps that any clamp cuts off
EXTREMES = ("maximum", "minimum")
ZERO_DIVISOR = np.float32(2.0**-64)
WIDEST = 255  # |x - z_x|, and |x| after a shift of sign by 128


@dataclass(frozen=True)
class Accumulator:
    """int64 steps, each worth ``s / count``; s and count broadcast against them."""

    steps: Array
    s: Array
    count: Array


@dataclass(frozen=True)
class Integers:
    """Reads integer tensors by their nodes, and how they are quantized."""

    value: Callable[[Node], Array]
    params: Callable[[Node], Params]  # of a quantize or dequantize call
    requantize: str = "float"  # or the rounding of fixed-point arithmetic

    def requantized(self, match: Match, y: Params) -> Array:
        """Return the integers of a quantize root with parameters ``y``."""
        if match.core.op == "concat":
            parts = [Match(part) for part in nodes_read(match.core)]
            moved = [self._real_steps(part, y) for part in parts]
            t = np.concatenate(moved, match.core.attrs["axis"])
        elif match.core.op == "sample2d":
            t = self._sampled(match.core, y)
        elif is_filled(match.core):
            inner = self._real_steps(Match(match.core.args[0]), y)
            steps = np.rint(match.core.attrs["pad_value"] / np.float64(y.s.reshape(())))
            t = operators.apply("pad", [inner], match.core.attrs | {"pad_value": steps})
        else:
            t = self._real_steps(match, y)
        q = round_and_clamp(t, y, match.low, match.high)
        for move in match.moves:
            q = operators.apply(move.op, [q, *move.args[1:]], move.attrs)
        return q

    def _sampled(self, core: Node, y: Params) -> Array:
        """Return t, float32: pixels between pixels, in steps of y."""
        image, *others = core.args
        x, s = self._view(image)
        m = multiplier(s / np.float64(y.s.reshape(())))
        floats = [self.value(other) for other in others]
        return operators.apply("sample2d", [x, *floats], core.attrs | {"m": m})

    def real(self, match: Match) -> Array:
        """Return a float output: one float32 multiply by ``S = s_x * s_w``, or ``alpha * S``."""
        if attention.is_attention(match.core, is_view):
            return self._attended(match.core, np.float64(1))
        acc = self.accumulator(match)
        return scaled(acc.steps, _by_sign(acc.steps, acc.s / acc.count, match))

    def table(self, leaf: Node, root: Node, y: Params) -> Array:
        """Return the integers of a function of one tensor, from a table of 256 float64 values."""
        x = self.params(leaf)
        q = self.value(leaf.args[0])
        info = np.iinfo(x.dtype)
        every = np.arange(info.min, info.max + 1).reshape(-1, 1, 1, 1)
        reals = (every - x.z) * np.float64(x.s)
        with np.errstate(all="ignore"):
            values = np.asarray(evaluate(root, leaf, reals), np.float64).reshape(-1)
        if not np.isfinite(values).all():
            bad = int(np.argmin(np.isfinite(values)))
            raise ValueError(f"{root.name}: the table is {values[bad]} at integer {bad + info.min}")
        low_to_high = round_and_clamp(values / np.float64(y.s), y, -np.inf, np.inf)
        return low_to_high[q.astype(np.int64) - info.min]

    def accumulator(self, match: Match) -> Accumulator:
        """Accumulate the core of an operator, bias included."""
        core, one = match.core, np.float64(1)
        if core.op == "matmul" and not is_weight(core.args[1]):
            (a, s_a), (b, s_b) = (self._view(arg) for arg in core.args)
            product = operators.apply(core.op, [a * 1.0, b * 1.0], core.attrs)
            return Accumulator(product.astype(np.int64), s_a * s_b, one)
        if core.op in ("conv2d", "matmul"):
            return self._product(core, match.bias)
        if core.op == "multiply":
            (a, s_a), (b, s_b) = (self._view(arg) for arg in core.args)
            return Accumulator(a * b, s_a * s_b, one)
        if core.op in ("mean", "avg_pool2d", "adaptive_avg_pool2d"):
            x, s = self._view(core.args[0])
            return Accumulator(*_average(core, x, s))
        if core.op == "resize2d" and operators.is_bilinear(core.attrs):
            x, s = self._view(core.args[0])
            mode = core.attrs["coordinate_transformation_mode"]
            steps = operators.bilinear_steps(x, core.args[1], mode).astype(np.int64)
            return Accumulator(steps, s, np.float64(operators.WEIGHT_UNITS**2))
        x, s = self._view(core)
        return Accumulator(x, s, one) if match.factor is None else _affine(x, s, match)

    def _real_steps(self, match: Match, y: Params) -> Array:
        """Return t, float32: the operator's real value in steps of y, before rounding.

        In fixed point, the integer that rounding gives.
        """
        if self.requantize != "float":
            return np.clip(self._fixed_steps(match, y), -BEYOND, BEYOND)
        s_y = np.float64(y.s.reshape(()))
        if match.core.op in EXTREMES:
            return self._extreme(match.core, s_y, lambda q, s: scaled(q, multiplier(s / s_y)))
        if match.core.op == "divide":
            return self._quotient(match.core, s_y)
        if attention.is_attention(match.core, is_view):
            return self._attended(match.core, s_y)
        acc = self.accumulator(match)
        if match.gate or match.sum_first:
            return self._finished(match, acc, s_y)
        if match.residual is None:
            return scaled(acc.steps, _by_sign(acc.steps, acc.s / (s_y * acc.count), match))
        r, s_r = self._view(match.residual)
        s_r = match.sign * s_r
        if match.core.op != "conv2d" and r.size > acc.steps.size:  # the broadcast operand is r
            acc, (r, s_r) = Accumulator(r, s_r, np.float64(1)), (acc.steps, acc.s)
        t = scaled(acc.steps, _by_sign(acc.steps, acc.s / (s_y * acc.count), match))
        return fma(r.astype(np.float32), multiplier(s_r / s_y), t)

    def _finished(self, match: Match, acc: Accumulator, s_y: Array) -> Array:
        """Return t of a layer that ends in a function, or in a slope of its sum with a residual."""
        unit = np.float64(1) if match.gate else s_y  # of what the function or the slope is of
        t = scaled(acc.steps, multiplier(acc.s / unit))
        if match.sum_first:
            t = self._added(match, t, unit)
        if match.gate:
            stretch = 1 if match.stretch is None else match.stretch.astype(np.float64)
            name, a, b = match.gate
            values, m = gated(name, t), multiplier(a * stretch / s_y)
            t = fma(values, m, multiplier(b * stretch / s_y)) if b else values * m
        else:
            t = np.where(t < 0, t * _slope(t, match).astype(np.float32), t)
        return t if match.sum_first or match.residual is None else self._added(match, t, s_y)

    def _added(self, match: Match, t: Array, unit: Array) -> Array:
        """Return t with the residual, both in ``unit``."""
        r, s_r = self._view(match.residual)
        return fma(r.astype(np.float32), multiplier(s_r / unit), t)

    def _fixed_steps(self, match: Match, y: Params) -> Array:
        s_y, rounding = np.float64(y.s.reshape(())), self.requantize
        if match.core.op in EXTREMES:
            return self._extreme(match.core, s_y, lambda q, s: fixed.scaled(q, s / s_y, rounding))
        acc = self.accumulator(match)
        real = acc.s / (s_y * acc.count)
        slope = 1.0 if match.alpha is None else _slope(acc.steps, match)
        if match.residual is None:
            positive = fixed.scaled(acc.steps, real, rounding)
            return np.where(
                acc.steps < 0, fixed.scaled(acc.steps, slope * real, rounding), positive
            )
        r, s_r = self._view(match.residual)
        if match.core.op != "conv2d":
            m_r = match.sign * float(s_r / s_y)
            return fixed.added(acc.steps, float(real), r, m_r, rounding)
        below, above = np.minimum(acc.steps, 0), np.maximum(acc.steps, 0)
        terms = [(above, real), (below, slope * real), (r, s_r / s_y)]
        return fixed.joined(terms, rounding)

    def _attended(self, core: Node, s_y: Array) -> Array:
        """Return means of values in steps of y, float32."""
        sums, weights, s = attention.attended(core, self._view, is_view, self.value)
        return attention.mean(sums, weights) * multiplier(s / s_y)

    def _quotient(self, core: Node, s_y: Array) -> Array:
        """Return a quotient in steps of y, float32; what divides by no step divides by 2^-64."""
        (a, s_a), (b, s_b) = (self._view(arg) for arg in core.args)
        divisor = b.astype(np.float32)
        divisor[divisor == 0] = ZERO_DIVISOR
        with np.errstate(over="ignore"):
            return a.astype(np.float32) / divisor * multiplier(s_a / (s_b * s_y))

    def _extreme(
        self, core: Node, s_y: Array, steps_of_y: Callable[[Array, Array], Array]
    ) -> Array:
        """Return the greater or the lesser of two views or of one and a constant, in steps of y."""
        a, b = (
            steps_of_y(*self._view(arg))
            if arg.op != "constant"
            else np.rint(arg.value.astype(np.float64) / s_y)
            for arg in core.args
        )
        return operators.apply(core.op, [a, b], {})

    def _view(self, node: Node) -> tuple[Array, Array]:
        """Return int64 ``q - z`` (so that padding is 0) and float64 s of a view."""
        if node.op == "dequantize":
            x = self.params(node)
            return self.value(node.args[0]).astype(np.int64) - x.z, np.float64(x.s.reshape(()))
        x, s = self._view(node.args[0])
        return operators.apply(node.op, [x, *node.args[1:]], node.attrs), s

    def _product(self, core: Node, bias: np.ndarray | None) -> Accumulator:
        x, s_x = self._view(core.args[0])
        leaf = core.args[1]
        w = self.params(leaf)
        q = self.value(leaf.args[0])
        w_steps = q.astype(np.int64) - w.along(w.z, q.ndim)
        channel = 0 if core.op == "conv2d" else w_steps.ndim - 1
        if w.s.size > 1 and w.axis % w_steps.ndim != channel:
            raise ValueError(f"{core.name}: weight scales lie on axis {w.axis}, expected {channel}")
        s = s_x * w.s.astype(np.float64)
        rank = x.ndim
        axis = 1 if core.op == "conv2d" else rank - 1
        channels = w_steps.shape[channel]
        b = np.zeros(channels) if bias is None else np.rint(bias.astype(np.float64) / s)
        b = np.broadcast_to(b, (channels,))
        _check_int32(core, np.moveaxis(w_steps, channel, 0), b)
        product = operators.apply(core.op, [x * 1.0, w_steps * 1.0], core.attrs)
        steps = (product + along(b, axis, rank)).astype(np.int64)
        return Accumulator(steps, along(s, axis, rank), np.float64(1))


def _affine(x: Array, s_x: Array, match: Match) -> Accumulator:
    """Accumulate ``factor * x + bias`` as a depthwise convolution, whose weights have scales."""
    channels = (x.shape[1],)
    a, b = (np.broadcast_to(part, channels) for part in (match.factor, match.bias))
    s_w = np.maximum(np.abs(a) / 127, np.abs(b) / (s_x * 2.0**30)).astype(np.float32)
    s_w = np.where(s_w > 0, s_w, 1).astype(np.float64)
    w, bias = np.clip(np.rint(a / s_w), -128, 127), np.rint(b / (s_x * s_w))
    steps = x * along(w, 1, x.ndim) + along(bias, 1, x.ndim)
    return Accumulator(steps.astype(np.int64), along(s_x * s_w, 1, x.ndim), np.float64(1))


def _by_sign(steps: Array, real: Array, match: Match) -> Array:
    """Return the multiplier, float32(alpha * real) where steps are negative and alpha given."""
    m = multiplier(real)
    if match.alpha is None:
        return m
    return np.where(steps < 0, multiplier(_slope(steps, match) * real), m)


def _slope(steps: Array, match: Match) -> Array:
    return along(match.alpha.astype(np.float64), match.alpha_axis, steps.ndim)


def _average(core: Node, x: Array, s: Array) -> tuple[Array, Array, Array]:
    if core.op == "mean":
        sums = operators.total(x, **core.attrs)
        return sums, s, np.float64(x.size // sums.size)
    if core.op == "adaptive_avg_pool2d":
        sums, counts = operators.adaptive_sums(x, **core.attrs)
    else:
        sums = operators.window_sums(x, **core.attrs)
        counts = operators.window_counts(x, **core.attrs)
    return sums, s, counts.astype(np.float64)


def _check_int32(core: Node, w_steps: Array, b: Array) -> None:
    """Raise where the contract's bound on the accumulator does not hold."""
    magnitude = np.abs(w_steps).reshape(len(w_steps), -1).sum(axis=1)
    bound = WIDEST * magnitude + np.abs(b)
    if not (bound < INT32_END).all():
        channel = int(bound.argmax())
        raise OverflowError(
            f"{core.name}: the accumulator of channel {channel} may reach {bound[channel]:.0f}, "
            f"int32 ends at {INT32_END - 1}; this layer must stay float"
        )
