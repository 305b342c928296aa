"""Norms and softmax of a row of values: expressions of one lane or a vector of lanes.

A row is summed in sixteen partial sums, which a tree of additions joins: see
``schedules.spec.normalizing``. Kernels differ in where the partial sums lie: those of a CPU are a
vector, those of a GPU sixteen threads.

Exact:  no product feeds a sum but by fma, and no division by a constant, which may be a product.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.body import symbolic_axis
from schedules.bodies.buffers import declare_operator
from schedules.bodies.exponential import exp
from schedules.bodies.vectors import broadcast, cast, f32, fma, lanes, rint, splat
from schedules.layout import ROW, Layout
from schedules.spec import Normalize, Recurrence, Softmax
from schedules.spec.functions import LEAST_EXP_ARGUMENT
from schedules.spec.operator_spec import FLOAT32_MAX

RowSpec = Normalize | Softmax
Buffers = Mapping[str, Any]


def refuses(spec: RowSpec) -> str | None:
    """Say why no target computes it so, or None."""
    reason = symbolic_axis(spec)
    if reason is not None:
        return reason
    rank = len(spec.dims)
    if isinstance(spec, Normalize):
        has_first = spec.axes == rank or rank == 1
    else:
        has_first = spec.axis % rank == 0
    if has_first and not isinstance(spec.dims[0], int):
        return "axis 0 of x is symbolic, and part of a row"
    return None if spec.size > 0 else "a row has no element"


def declare(spec: RowSpec, layout: Layout = ROW) -> dict[str, Any]:
    """Declare the arguments into the function that is open; return the buffers by name."""
    lengths = {"clamp": 2}
    if isinstance(spec, Normalize):
        lengths |= {"gamma": spec.channels, "beta": spec.channels}
    return declare_operator(spec, lengths, layout)


def deviation(spec: Normalize, x: Expr, mean: Expr) -> Expr:
    """Return what is squared: x, less its mean where the norm is centred.

    ``mean`` is one number, or as many as ``x``; so are ``inv`` and what they are made of.
    """
    return x - _in_lanes(mean, lanes(x)) if spec.centred else x


def square_added(d: Expr, total: Expr) -> Expr:
    """Return ``total + d * d``, rounded once."""
    return fma(d, d, total)


def mean(total: Expr, buffers: Buffers) -> Expr:
    """Return the mean of a row; ``buffers`` has the constants by name."""
    return total / broadcast(buffers["count"][0], lanes(total))


def inverse(squares: Expr, buffers: Buffers) -> Expr:
    """Return the factor of a row, one over its deviation; ``buffers`` has the constants."""
    one, epsilon = (broadcast(x, lanes(squares)) for x in (f32(1), buffers["epsilon"][0]))
    return one / tirx.sqrt(mean(squares, buffers) + epsilon)


def scaled(d: Expr, inv: Expr, gamma: Expr, beta: Expr) -> Expr:
    """Return a normalized element; gamma and beta have its lanes."""
    return fma(d * _in_lanes(inv, lanes(d)), gamma, beta)


def joined(parts: Sequence[Expr], join: Callable[[Expr, Expr], Expr] = operator.add) -> Expr:
    """Return partial results joined by the tree: parts l and l + 8, l and l + 4, and so on."""
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [join(b, a) for a, b in zip(parts[:half], parts[half:], strict=True)]
    return parts[0]


def finite(top: Expr) -> Expr:
    """Return the largest element of a row, or of rows, clamped to the finite numbers."""
    most, least = (splat(value, "float32", lanes(top)) for value in (FLOAT32_MAX, -FLOAT32_MAX))
    return tirx.max(tirx.min(top, most), least)


def exponential(x: Expr, top: Expr) -> Expr:
    """Return exp(x - top), zero where that is no normal number; binds parts of it.

    ``top`` is one number, or as many as ``x``.
    """
    count = lanes(x)
    zero, smallest = (splat(value, "float32", count) for value in (0, LEAST_EXP_ARGUMENT))
    a = T.bind(tirx.min(x - _in_lanes(top, count), zero))
    return tirx.Select(a < smallest, zero, exp(tirx.max(a, smallest), held=T.bind))


def share(e: Expr, total: Expr) -> Expr:
    """Return the share of an exponential in its row; ``total`` is one number, or as many."""
    least = splat(1, "float32", lanes(total))
    return e / _in_lanes(tirx.max(total, least), lanes(e))


def stored(spec: RowSpec | Recurrence, t: Expr, buffers: Buffers) -> Expr:
    """Return lanes of y: ``t`` itself, or quantized by s, z and clamp of ``buffers``."""
    if spec.y == "float32":
        return t
    count = lanes(t)

    def _all(name: str, index: int = 0) -> Expr:
        return broadcast(buffers[name][index], count)

    # Clamped before rint, which is the same for whole-number bounds.
    steps = tirx.min(tirx.max(t / _all("s"), _all("clamp", 0)), _all("clamp", 1))
    return cast(rint(steps) + _all("z"), spec.y)


def _in_lanes(value: Expr, count: int) -> Expr:
    return value if lanes(value) == count else broadcast(value, count)
