"""Which tree of float operators is one integer operator.

A tree stands between dequantize leaves and a quantize root (or, for a convolution or dense layer,
a float consumer). What one integer operator can hold, inside out:

    view    = dequantize | move(view)
    core    = conv2d(view, weight) [+ bias] | matmul(view, weight) [+ bias]
            | view * view | view / view | max(view, view | constant) | min(view, view | constant) | average(view) | bilinear(view) | concat(view, ...) | view
            | sample2d(view, float places[, float mask])
            | matmul(view, view) | attention, see oracle/attention.py
            | a * view + b                  by constants, one a channel: a depthwise convolution
    factor  = core | leaky(core)            of conv2d, matmul, view
    sum     = factor | factor + view        the factor then a conv2d nobody else reads, or a view
            | view - view
            | relu(factor) + view | gated + view          of such a conv2d
            one view of a sum or a product of two may be constant integers, see is_integers
    root    = sum, then clamps and one-to-one moves
            | leaky(factor + view)          of such a conv2d
            | gated
    gated   = a function of conv2d or matmul (+ bias), or of conv2d (+ bias) + view, that epilogues
              compute, see oracle/gates.py [* a positive constant a channel of an image]

A tree of elementwise functions over one dequantize and scalar constants is a table. Any other tree
is a float island.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.oracle.arithmetic import dequantize
from tests.oracle.attention import is_attention
from tests.oracle.gates import gate_parts
from tests.oracle.graph import Graph, Node, nodes_read
from tests.oracle.operators import (
    ELEMENTWISE,
    LAYOUT,
    MOVES,
    apply,
    is_bilinear,
    is_nearest_floor,
)
from tests.oracle.parameters import read_params

AVERAGES = ("mean", "avg_pool2d", "adaptive_avg_pool2d")
LEAKY = ("leakyrelu", "prelu")
BINARY = ("multiply", "divide", "maximum", "minimum")


@dataclass(frozen=True)
class Match:
    """One integer operator: ``clamp(leaky(factor * core + bias) + residual)``, moved.

    With sum_first leaky, or the function of the name gate in its place, is of the sum.
    sign is -1 where the residual is subtracted; low and high are real bounds; alpha is None or the slope below zero, a scalar or one a channel.
    """

    core: Node
    bias: np.ndarray | None = None
    factor: np.ndarray | None = None
    alpha: np.ndarray | None = None
    alpha_axis: int = 1
    residual: Node | None = None
    sum_first: bool = False
    sign: int = 1
    low: float = -np.inf
    high: float = np.inf
    gate: tuple[str, float, float] | None = None  # a * f + b: the name of f, a and b
    stretch: np.ndarray | None = None  # what its values are multiplied by, one a channel
    moves: tuple[Node, ...] = field(default=())  # innermost first


def constant(node: object) -> np.ndarray | None:
    """Return the value of a constant, also moved, or int32 dequantized (a bias); else None."""
    if not isinstance(node, Node):
        return None
    if node.op == "dequantize" and node.args[0].op == "constant":
        q = node.args[0].value
        return dequantize(q, read_params(node, str(q.dtype)))
    if node.op in LAYOUT:
        source = constant(node.args[0])
        return None if source is None else apply(node.op, [source, *node.args[1:]], node.attrs)
    return node.value


def is_weight(node: Node) -> bool:
    """Whether node is a dequantized constant."""
    if node.op != "dequantize":
        return False
    q = node.args[0]
    return constant(q.args[0] if q.op == "quantize" else q) is not None


def is_view(node: object) -> bool:
    """Whether node is a dequantized activation, or one whose elements are only moved."""
    if not isinstance(node, Node):
        return False
    if node.op == "dequantize":
        s = constant(node.args[1])
        return s is not None and s.size == 1 and not is_weight(node)
    if is_filled(node):
        return False
    if node.op == "resize2d" and not is_nearest_floor(node.attrs):
        return False
    return node.op in MOVES and is_view(node.args[0])


def is_integers(node: object) -> bool:
    """Whether node is a constant of several numbers with one scale, not one a channel of an image.

    Of int32 it would be a bias.
    """
    if not isinstance(node, Node) or not is_weight(node):
        return False
    array, s = constant_of(node), constant(node.args[1])
    by_channel = array.ndim >= 3 and array.shape[-2:] == (1, 1)
    return s.size == 1 and array.size > 1 and array.dtype != np.int32 and not by_channel


def constant_of(node: Node) -> np.ndarray:
    """Return the constant that a dequantize stands on: integers, or the reals of a pair."""
    q = node.args[0]
    return constant(q.args[0] if q.op == "quantize" else q)


def _are_operands(nodes: Sequence[object]) -> bool:
    """Whether nodes are views, of which one may be constant integers."""
    views = [is_view(node) for node in nodes]
    return all(views) or (any(views) and all(is_view(n) or is_integers(n) for n in nodes))


def is_filled(node: Node) -> bool:
    """Whether node pads with a value that is not zero: its result has parameters of its own."""
    if node.op != "pad" or node.attrs["pad_mode"] != "constant":
        return False
    return float(node.attrs["pad_value"]) != 0


def match_root(root: Node, graph: Graph) -> Match | None:
    """Return the integer operator whose float form is ``root``, or None."""
    low, high, moves, node = -np.inf, np.inf, [], root
    while not is_view(node):
        bounds = _clamp(node)
        if bounds:
            # The outer clamp is applied last: it moves the bounds that are found inside.
            inner, (inner_low, inner_high) = bounds
            low, high = (float(np.clip(b, low, high)) for b in (inner_low, inner_high))
            node = inner
        elif node.op in LAYOUT:
            moves.insert(0, node)
            node = node.args[0]
        else:
            break
    found = _sum(node, graph) or _leaky_sum(node, graph)
    if found is None:
        return _gated(root, graph)
    if found and found.core.op == "divide" and graph.requantize != "float":
        return None
    return found and replace(found, low=low, high=high, moves=tuple(moves))


def _gated(root: Node, graph: Graph) -> Match | None:
    """Return a convolution or dense layer whose sums a function is applied to, or None.

    Nothing but the function may read the layer's result.
    """
    root, stretch = _stretched(root, graph)
    of_sum = _gated_sum(root, graph)
    if of_sum:
        return replace(of_sum, stretch=stretch)
    products = _leaves(root, _is_product)
    if graph.requantize != "float" or products is None or len(products) != 1:
        return None
    layer = products.pop()
    inside = _between(root, layer)
    adds = [node for node in inside if node.op == "add" and layer in node.args]
    if graph.consumers[layer] == 1 and adds and match_factor(adds[0]):
        layer = adds[0]
        inside = _between(root, layer)
    if graph.consumers[layer] != sum(arg is layer for node in inside for arg in node.args):
        return None
    parts = gate_parts(lambda reals: evaluate(root, layer, reals))
    found = match_factor(layer)
    return replace(found, gate=parts, stretch=stretch) if found and parts else None


def _gated_sum(root: Node, graph: Graph) -> Match | None:
    """Return a convolution whose sum with a residual a function is applied to, or None."""
    if graph.requantize != "float":
        return None
    below = [root]
    while below:
        node = below.pop()
        if node.op in ("dequantize", "conv2d", "matmul") or constant(node) is not None:
            continue
        found = _plain_sum(node, graph) if node is not root else None
        inside = _between(root, node) if found else set()
        if found and all(part.op in ELEMENTWISE for part in inside):
            read = sum(arg is node for part in inside for arg in part.args)
            parts = gate_parts(lambda reals, leaf=node: evaluate(root, leaf, reals))
            alone = read == graph.consumers[node]
            return replace(found, gate=parts, sum_first=True) if parts and alone else None
        below += nodes_read(node)
    return None


def _leaky_sum(node: Node, graph: Graph) -> Match | None:
    """Return a convolution of whose sum with a residual a slope is taken, or None."""
    if node.op not in LEAKY or graph.requantize != "float" or graph.consumers[node.args[0]] != 1:
        return None
    found = _plain_sum(node.args[0], graph)
    alpha = node.attrs.get("alpha") if node.op == "leakyrelu" else constant(node.args[1])
    if found is None or alpha is None:
        return None
    axis = node.attrs.get("axis", 1)
    return replace(found, alpha=np.asarray(alpha), alpha_axis=axis, sum_first=True)


def _plain_sum(node: Node, graph: Graph) -> Match | None:
    """Return a convolution and its residual without a slope or a function, or None."""
    found = _sum(node, graph) if node.op == "add" else None
    if found is None or found.residual is None or found.core.op != "conv2d":
        return None
    return None if found.gate or found.alpha is not None else found


def _stretched(root: Node, graph: Graph) -> tuple[Node, np.ndarray | None]:
    """Return what positive constants, one a channel of an image, multiply, and these."""
    if root.op == "multiply":
        for inner, factors in (root.args, root.args[::-1]):
            array = constant(factors)
            if array is None or array.size == 1 or array.shape[-2:] != (1, 1):
                continue
            if graph.consumers[inner] == 1 and (array > 0).all():
                return inner, array
    return root, None


def _between(root: Node, leaf: Node) -> set[Node]:
    """Return the nodes from ``root`` down to what reads ``leaf``."""
    if root is leaf or constant(root) is not None:
        return set()
    return {root}.union(*(_between(arg, leaf) for arg in nodes_read(root)))


def match_factor(node: Node) -> Match | None:
    """Return conv2d or matmul with its bias and leaky slope, or another core; None if neither."""
    if node.op in LEAKY:
        inner = match_factor(node.args[0])
        alpha = node.attrs.get("alpha") if node.op == "leakyrelu" else constant(node.args[1])
        if inner is None or inner.alpha is not None or alpha is None:
            return None
        leaky_core = inner.core.op in ("conv2d", "matmul") or (
            is_view(inner.core) and inner.factor is None
        )
        axis = node.attrs.get("axis", 1)
        return replace(inner, alpha=np.asarray(alpha), alpha_axis=axis) if leaky_core else None
    if node.op == "add":
        for inner, bias in (node.args, node.args[::-1]):
            if constant(bias) is not None and _is_product(inner):
                aligned = _per_channel(inner, constant(bias))
                return None if aligned is None else Match(inner, bias=aligned)
    if _is_core(node):
        return Match(node)
    core, a, b = _affine(node)
    return None if core is None else Match(core, bias=b, factor=a)


def _affine(node: Node) -> tuple[Node | None, np.ndarray, np.ndarray]:
    """Return view, a and b of ``a * view + b``, one a channel of an image; no view if it is none."""
    none = None, np.ones(1), np.zeros(1)
    if node.op == "negative":
        core, a, b = _affine(node.args[0])
        return core, -a, -b
    if node.op not in ("add", "subtract", "multiply", "divide"):
        return none
    first, second = (constant(arg) for arg in node.args)
    k, inner = (first, node.args[1]) if first is not None else (second, node.args[0])
    if k is None or (first is not None and node.op == "divide"):
        return none
    if k.size > 1 and (k.ndim < 3 or k.shape[-3] != k.size):
        return none
    k = k.astype(np.float64).reshape(-1)
    innermost = is_view(inner) and k.size > 1
    core, a, b = (inner, np.ones(1), np.zeros(1)) if innermost else _affine(inner)
    if node.op == "multiply":
        return core, a * k, b * k
    if node.op == "divide":
        return core, a / k, b / k
    if node.op == "add":
        return core, a, b + k
    return (core, a, b - k) if first is None else (core, -a, k - b)


def _sum(node: Node, graph: Graph) -> Match | None:
    found = match_factor(node)
    if found or node.op not in ("add", "subtract"):
        return found
    first, second = node.args
    if _are_operands(node.args):
        return Match(first, residual=second, sign=1 if node.op == "add" else -1)
    if node.op == "subtract":
        return None
    for inner, other in ((first, second), (second, first)):
        if not isinstance(inner, Node) or not is_view(other):
            continue
        factor = match_factor(inner)
        if inner.op == "relu":
            factor = match_factor(inner.args[0])
            factor = factor and factor.alpha is None and replace(factor, alpha=np.zeros(1))
        if factor and factor.core.op == "conv2d":
            alone = all(graph.consumers[part] == 1 for part in _chain(inner, factor.core))
            return replace(factor, residual=other) if alone else None
        function = _gated(inner, graph) if graph.consumers.get(inner) == 1 else None
        if function and function.core.op == "conv2d" and function.residual is None:
            return replace(function, residual=other)
    return None


def _chain(node: Node, core: Node) -> list[Node]:
    chain = [node]
    while chain[-1] is not core:
        inner = [arg for arg in nodes_read(chain[-1]) if constant(arg) is None]
        chain.append(inner[0])
    return chain


def _is_product(node: object) -> bool:
    if not isinstance(node, Node) or node.op not in ("conv2d", "matmul"):
        return False
    x, w = node.args
    return is_view(x) and is_weight(w)


def _is_core(node: Node) -> bool:
    if node.op in ("maximum", "minimum") and "constant" in [arg.op for arg in node.args]:
        return any(is_view(arg) for arg in node.args)
    if node.op == "multiply":  # a square is a function of one tensor
        return node.args[0] is not node.args[1] and _are_operands(node.args)
    if node.op in BINARY:
        return all(is_view(arg) for arg in node.args)
    if node.op in (*AVERAGES, "sample2d") or (node.op == "resize2d" and is_bilinear(node.attrs)):
        return is_view(node.args[0])
    if is_filled(node):
        return is_view(node.args[0])
    if node.op == "concat":
        return all(is_view(part) for part in nodes_read(node))
    if node.op == "matmul" and not _is_product(node):
        return all(is_view(arg) for arg in node.args) or is_attention(node, is_view)
    return is_view(node) or _is_product(node)


def _per_channel(product: Node, bias: np.ndarray | None) -> np.ndarray | None:
    """Return a bias as a vector, or None where it varies along anything but channels."""
    from_end = 3 if product.op == "conv2d" else 1
    aligned = bias.size == 1 or (
        bias.ndim >= from_end and bias.shape[bias.ndim - from_end] == bias.size
    )
    return bias.reshape(-1) if aligned else None


def _clamp(node: Node) -> tuple[Node, tuple[float, float]] | None:
    """Return what node clamps, and between which reals; None if it is no clamp."""
    if node.op == "relu":
        return node.args[0], (0.0, np.inf)
    if node.op == "clip":
        low, high = (constant(b) if isinstance(b, Node) else b for b in node.args[1:])
        return None if low is None or high is None else (node.args[0], (float(low), float(high)))
    if node.op in ("maximum", "minimum"):
        for inner, bound in (node.args, node.args[::-1]):
            value = constant(bound)
            if value is not None and value.size == 1:
                real = float(value.reshape(()))
                return inner, (real, np.inf) if node.op == "maximum" else (-np.inf, real)
    return None


def match_table(root: Node) -> Node | None:
    """Return the one dequantize that a tree of elementwise functions reads, or None."""
    leaves = _leaves(root, is_view)
    return leaves.pop() if leaves is not None and len(leaves) == 1 else None


def _leaves(
    node: object, is_leaf: Callable[[Node], bool], beside_product: bool = False
) -> set[Node] | None:
    """Return what a tree of elementwise functions reads; None where it reads anything else.

    A bias, ``beside_product``, is the only constant with several elements.
    """
    if not isinstance(node, Node):
        return set()
    if node.op in ("dequantize", "conv2d", "matmul"):
        return {node} if is_leaf(node) else None
    value = constant(node)
    if value is not None:
        return set() if value.size == 1 or beside_product else None
    if node.op not in (*ELEMENTWISE, "prelu"):
        return None
    biased = node.op == "add" and any(map(_is_product, node.args))
    below = [_leaves(arg, is_leaf, biased) for arg in node.args]
    return None if None in below else set().union(*below)


def evaluate(node: Any, leaf: Node, reals: np.ndarray) -> Any:
    """Evaluate a tree of elementwise functions of ``leaf`` in float64."""
    if node is leaf:
        return reals
    if not isinstance(node, Node):
        return node
    value = constant(node)
    if value is not None:
        return value.astype(np.float64).reshape(-1)
    args = [evaluate(arg, leaf, reals) for arg in node.args]
    return apply(node.op, args, node.attrs)
