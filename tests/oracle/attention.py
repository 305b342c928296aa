"""Attention in the oracle: ``softmax(factor * q k' + mask) v`` of dequantized tensors, worked out.

    weighted = matmul(shares, scaled view)
    shares   = reshape(shares) | where(isnan(s), 0, s) | s = softmax(scores), along the last axis
    scores   = matmul(scaled view, scaled view) | number * scores | numbers of heads * scores | scores + mask | reshape(scores)
             | where(constant, scores, number)
    scaled view = view | number * scaled view | move(scaled view)

Powers of two as docs/design.md has them: bytes, of a scale of their own for each query.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.oracle import operators
from tests.oracle.arithmetic import Array, fma
from tests.oracle.graph import Node

FLOAT_LOWEST = np.finfo(np.float32).min
View = Callable[[Node], tuple[Array, Array]]


@dataclass
class Scores:
    """A product of queries and keys, the factor that it is multiplied by, what is added after."""

    product: Node
    factor: Any = 1.0
    masks: list[tuple[Any, Any]] = field(default_factory=list)
    reshapes: list[Node] = field(default_factory=list)  # innermost first


def is_attention(node: object, is_view: Callable[[object], bool]) -> bool:
    """Whether ``node`` is the product of shares and values that closes an attention."""
    if not isinstance(node, Node) or node.op != "matmul":
        return False
    softmax = _softmax(node.args[0])
    if softmax is None or not _is_scaled_view(node.args[1], is_view):
        return False
    return _scores(softmax.args[0], is_view) is not None


def masks_read(node: Node, is_view: Callable[[object], bool]) -> list[Node]:
    """Return the masks of an attention that are computed."""
    softmax = _softmax(node.args[0])
    scores = _scores(softmax.args[0], is_view)
    return [mask for mask, _ in scores.masks if isinstance(mask, Node)]


def attended(
    node: Node, view: View, is_view: Callable[[object], bool], value: Callable[[Node], Array]
) -> tuple[Array, Array, Array]:
    """Return sums of weighed values, int64, the sums of their weights, and what a step is worth."""
    softmax = _softmax(node.args[0])
    scores = _scores(softmax.args[0], is_view)
    (q, s_q), (k, s_k) = (_scaled(arg, view, is_view) for arg in scores.product.args)
    v, s_v = _scaled(node.args[1], view, is_view)
    acc = operators.apply("matmul", [q * 1.0, k * 1.0], scores.product.attrs).astype(np.int64)
    m = np.asarray(s_q * s_k * scores.factor * math.log2(math.e)).astype(np.float32)
    for reshape in scores.reshapes:
        acc = operators.apply("reshape", [acc, *reshape.args[1:]], reshape.attrs)
    if scores.masks:
        added = fma(acc.astype(np.float32), m, _mask(scores, acc.shape, value))
        t = added - np.maximum(added.max(-1, keepdims=True), FLOAT_LOWEST)
    else:
        t = (acc - acc.max(-1, keepdims=True)).astype(np.float32) * m
    weights = _powers(t)
    if node.args[0].op == "reshape":
        weights = operators.apply("reshape", [weights, *node.args[0].args[1:]], {})
    sums = operators.apply("matmul", [weights * 1.0, v * 1.0], node.attrs).astype(np.int64)
    return sums, weights.sum(-1, keepdims=True), s_v


def mean(sums: Array, weights: Array) -> Array:
    """Return the quotient, float32; nothing weighs as much as one."""
    return sums.astype(np.float32) / np.maximum(weights, 1).astype(np.float32)


def _powers(t: Array) -> Array:
    t = np.maximum(t, np.float32(-126))
    whole = np.rint(t)
    series = np.zeros_like(t)
    for k in range(4, -1, -1):
        coefficient = np.float32(255 * math.log(2) ** k / math.factorial(k))
        series = fma(series, t - whole, np.asarray(coefficient))
    return np.rint(np.ldexp(series, whole.astype(np.int32))).astype(np.int64)


def _mask(scores: Scores, shape: tuple[int, ...], value: Callable[[Node], Array]) -> Array:
    """Return what is added to the scores, in powers of two."""
    parts = []
    for part, factor in scores.masks:
        array = value(part) if isinstance(part, Node) else part
        parts.append(array * np.asarray(factor).astype(np.float32))
        parts[-1] = np.broadcast_to(parts[-1], _shape_of(parts[-1], shape))
    total = np.zeros(shape)
    for part in parts:
        total = total + part.reshape(-1, *part.shape[-2:]).reshape(shape)
    with np.errstate(over="ignore"):  # a mask of float32's least number becomes minus infinity
        return total.astype(np.float32) * np.float32(math.log2(math.e))


def _shape_of(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return to which shape a mask is broadcast: that of the scores, also with an axis of 1 more."""
    if array.ndim <= len(shape):
        return shape
    return (*(1,) * (array.ndim - len(shape)), *shape)


def _softmax(node: object) -> Node | None:
    while isinstance(node, Node) and node.op in ("reshape", "where"):
        if node.op == "where":
            test, zero, inner = node.args
            if test.op != "isnan" or test.args[0] is not inner or np.any(zero.value):
                return None
            node = inner
        else:
            node = node.args[0]
    return node if isinstance(node, Node) and node.op == "softmax" else None


def _scores(node: object, is_view: Callable[[object], bool]) -> Scores | None:
    if not isinstance(node, Node):
        return None
    if node.op == "matmul":
        views = all(_is_scaled_view(arg, is_view) for arg in node.args)
        return Scores(node) if views else None
    if node.op == "reshape":
        found = _scores(node.args[0], is_view)
        if found is not None:
            found.reshapes.append(node)
        return found
    number = _number(node) or _numbers_of_heads(node)
    if number is not None:
        found = _scores(number[1], is_view)
        if found is not None:
            found.factor = found.factor * number[0]
            found.masks = [(mask, factor * number[0]) for mask, factor in found.masks]
        return found
    if node.op == "add":
        for inner, mask in (node.args, node.args[::-1]):
            found = _scores(inner, is_view)
            if found is not None:
                found.masks.append((mask if mask.value is None else mask.value, 1.0))
                return found
    if node.op == "where" and node.args[0].value is not None:
        found = _scores(node.args[1], is_view)
        if found is not None:
            mask = np.where(node.args[0].value, np.float32(0), node.args[2].value)
            found.masks.append((mask.astype(np.float32), 1.0))
        return found
    return None


def _number(node: Node) -> tuple[float, Any] | None:
    if node.op not in ("multiply", "divide"):
        return None
    first, second = node.args
    if second.value is not None and second.value.size == 1:
        k = float(second.value.reshape(()))
        return (k if node.op == "multiply" else 1 / k), first
    if node.op == "multiply" and first.value is not None and first.value.size == 1:
        return float(first.value.reshape(())), second
    return None


def _numbers_of_heads(node: Node) -> tuple[Array, Any] | None:
    if node.op != "multiply" or not isinstance(node.args[0], Node):
        return None
    numbers = node.args[1].value
    if numbers is None or numbers.ndim < 3 or numbers.shape[-2:] != (1, 1):
        return None
    return numbers.astype(np.float64), node.args[0]


def _is_scaled_view(node: object, is_view: Callable[[object], bool]) -> bool:
    while isinstance(node, Node) and not is_view(node):
        number = _number(node)
        if number is None and node.op not in operators.MOVES:
            return False
        node = node.args[0] if number is None else number[1]
    return isinstance(node, Node)


def _scaled(node: Node, view: View, is_view: Callable[[object], bool]) -> tuple[Array, Array]:
    """Return int64 ``q - z``, moved, and float64 s times the numbers on the way."""
    if is_view(node):
        return view(node)
    number = _number(node)
    if number is not None:
        x, s = _scaled(number[1], view, is_view)
        return x, s * number[0]
    x, s = _scaled(node.args[0], view, is_view)
    return operators.apply(node.op, [x, *node.args[1:]], node.attrs), s
