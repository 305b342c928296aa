"""The integer oracle: what a quantized network computes, from its QDQ form, in NumPy.

Independent of what it judges: it takes float weights, scales and zero points, derives biases,
multipliers and tables itself, and shares no code with the compiler or the kernels. TVM serves only
to read the graph (oracle/graph.py). The arithmetic is the numeric contract of docs/design.md:

- oracle/arithmetic.py  quantize, requantize, the exact fma
- oracle/fixed.py       requantize without floats
- oracle/operators.py   what each float operator computes
- oracle/matching.py    which tree of float operators is one integer operator
- oracle/integers.py    the integers of such an operator
- oracle/attention.py   those of attention
- oracle/recurrence.py  recurrent layers, whose gates are float32

Where the contract is silent:

- A constant is quantized in float64 (weights), anything else by a float32 division.
- ``a + b`` without convolution between them and the add: a is the product, b the fma's operand; the
  one that is broadcast is b.
- Tables are float64 until the rounding, dequantization included. Slopes of LeakyReLU and clip
  bounds are the float64 numbers that the graph holds.
- A quantize of what is no integer operator (a graph input, softmax) is a float island's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from tests.oracle import arithmetic, operators
from tests.oracle.arithmetic import Array, Params
from tests.oracle.attention import is_attention, masks_read
from tests.oracle.graph import Graph, Node, nodes_read, read_graph
from tests.oracle.integers import Integers
from tests.oracle.matching import (
    Match,
    constant,
    is_view,
    is_weight,
    match_factor,
    match_root,
    match_table,
)
from tests.oracle.parameters import read_params
from tests.oracle.recurrence import state_count


def run(
    mod: tvm.IRModule,
    inputs: Mapping[str, np.ndarray],
    *,
    given: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Return every tensor that the integer network has, by the name of its Var.

    Integer tensors come under the name of their ``quantize``; float tensors only where the integer
    network holds them (graph inputs and outputs, float islands and what feeds them).

    Parameters
    ----------
    mod
        ``main`` in QDQ form; its attribute "int8.qrange" may be JSON, quantize name -> [qmin, qmax],
        "int8.requantize" the rounding of fixed-point arithmetic.
    inputs
        By parameter name.
    given
        Tensors to take as they are instead of computing them, as after a float island.

    Raises
    ------
    OverflowError
        An int32 accumulator could overflow.
    ValueError
        A multiplier or a table is not finite, or names and shapes do not fit.
    NotImplementedError
        The oracle lacks an operator.
    """
    missing = {param.name for param in mod["main"].params} ^ set(inputs)
    if missing:
        raise ValueError(f"inputs {sorted(missing)} are missing or unknown")
    graph = read_graph(mod["main"], {name: array.shape for name, array in inputs.items()})
    known = {node.name for node in (*graph.inputs, *graph.calls)}
    unknown = set(given or ()) - known
    if unknown:
        raise ValueError(f"given tensors {sorted(unknown)} are not in the module")
    return _Run(graph, {**inputs, **(given or {})}).tensors()


def output_names(mod: tvm.IRModule, inputs: Mapping[str, np.ndarray]) -> list[str]:
    """Return the names under which :func:`run` returns the outputs, in their order."""
    graph = read_graph(mod["main"], {name: array.shape for name, array in inputs.items()})
    return [node.name for node in graph.outputs]


class _Run:
    def __init__(self, graph: Graph, given: Mapping[str, np.ndarray]) -> None:
        self.graph = graph
        nodes = (*graph.inputs, *graph.calls)
        self.values: dict[Node, Any] = {
            n: np.asarray(given[n.name]) for n in nodes if n.name in given
        }
        self.integers = Integers(self._value, self._params, graph.requantize)

    def tensors(self) -> dict[str, np.ndarray]:
        for node, match in reversed(self._plan().items()):
            if node.op == "quantize":
                self.values[node] = self._quantized(node, match)
            elif isinstance(match, Match):
                self.values[node] = self.integers.real(match)
            else:
                self.values[node] = self._float(node)
        named = {node.name: value for node, value in self.values.items()}
        aliases = self.graph.aliases.items()
        named.update({name: self.values[node] for name, node in aliases if node in self.values})
        return {name: value for name, value in named.items() if isinstance(value, np.ndarray)}

    def _plan(self) -> dict[Node, Match | Node | None]:
        """Say how each tensor that is held comes about, last first.

        A Match is an integer operator, a Node the leaf of a table, None float arithmetic.
        """
        plan: dict[Node, Match | Node | None] = {}
        needed = {*self.graph.outputs, *(n for n in self.graph.calls if n.op == "quantize")}
        for node in reversed(self.graph.calls):
            if node not in needed or node in self.values:
                continue
            if node.op == "quantize":
                root = node.args[0]
                plan[node] = match_root(root, self.graph) or match_table(root)
            else:
                found = match_factor(node)
                plan[node] = found if found and found.core.op in ("conv2d", "matmul") else None
            match = plan[node]
            if match is None:
                needed.update(nodes_read(node))
            elif isinstance(match, Match) and match.core.op == "sample2d":
                needed.update(nodes_read(match.core)[1:])
            elif isinstance(match, Match) and is_attention(match.core, is_view):
                needed.update(masks_read(match.core, is_view))
        return plan

    def _quantized(self, node: Node, match: Match | Node | None) -> Array:
        x, y = node.args[0], self._params(node)
        weights = constant(x)
        if weights is not None:
            return arithmetic.quantize_constant(weights, y)
        if match is None:
            return arithmetic.quantize(self._value(x), y)
        if y.s.size > 1:
            raise NotImplementedError(f"{node.name}: activations have one scale, found {y.s.size}")
        if isinstance(match, Node):
            return self.integers.table(match, x, y)
        return self.integers.requantized(match, y)

    def _float(self, node: Node) -> Any:
        if node.op == "dequantize":
            return arithmetic.dequantize(self._value(node.args[0]), self._params(node))
        if node.op == "recurrence" and is_weight(node.args[1 + state_count(node.attrs)]):
            return self._recurrence(node)
        return operators.apply(node.op, [self._value(arg) for arg in node.args], node.attrs)

    def _recurrence(self, node: Node) -> Any:
        """Return what a recurrent layer gives whose state multiplies integers."""
        first = 1 + state_count(node.attrs)
        tensors, weight, bias = node.args[:first], node.args[first], node.args[first + 1 :]
        w = self._params(weight)
        if w.axis != 0 or w.z.any():
            raise NotImplementedError(f"{node.name}: scales lie on axis {w.axis}, expected 0")
        steps = self._value(weight.args[0]).astype(np.int64)
        scale = np.broadcast_to(w.s, len(steps))
        args = [*map(self._value, tensors), steps, *map(self._value, bias)]
        return operators.apply(node.op, args, node.attrs | {"scale": scale})

    def _value(self, arg: Any) -> Any:
        if not isinstance(arg, Node):
            return arg
        if arg.op == "tuple":
            return [self._value(item) for item in arg.args]
        return arg.value if arg.value is not None else self.values[arg]

    def _params(self, node: Node) -> Params:
        if node.op == "quantize":
            return read_params(node, node.attrs["out_dtype"], self.graph.ranges.get(node.name))
        source = node.args[0]
        if source.op == "quantize":
            return read_params(node, source.attrs["out_dtype"], self.graph.ranges.get(source.name))
        return read_params(node, str(self._value(source).dtype))
