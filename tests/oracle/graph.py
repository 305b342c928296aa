"""A Relax function as plain Python: nodes, names, numbers. Nothing past this file sees TVM.

Symbolic extents become numbers here, from the shapes of the arrays the function is fed.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst, GlobalVar

PREFIXES = ("relax.image.", "relax.nn.", "relax.")
EXTENT_ARITHMETIC = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod,
}


@dataclass(frozen=True, eq=False)
class Node:
    """One tensor (or tuple of tensors) and the call that makes it.

    ``op`` is the operator's name without its namespace, or "input", "constant", "tuple" or "item".
    Arguments are Nodes, numbers, or tuples of numbers. Nodes are compared by identity.
    """

    name: str
    op: str
    args: tuple[Any, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    value: np.ndarray | None = None


@dataclass(frozen=True)
class Graph:
    """A function: its calls in topological order; aliases are further names of nodes."""

    inputs: tuple[Node, ...]
    calls: tuple[Node, ...]
    outputs: tuple[Node, ...]
    aliases: dict[str, Node]
    ranges: dict[str, tuple[int, int]]
    requantize: str

    @cached_property
    def consumers(self) -> dict[Node, int]:
        """How many calls and outputs read each node."""
        count = dict.fromkeys((*self.inputs, *self.calls), 0)
        for arg in (*(arg for call in self.calls for arg in nodes_read(call)), *self.outputs):
            if arg in count:
                count[arg] += 1
        return count


def nodes_read(node: Node) -> list[Node]:
    """The tensors a node reads, tuples taken apart."""
    read: list[Node] = []
    for arg in node.args:
        if isinstance(arg, Node):
            read.extend(nodes_read(arg) if arg.op == "tuple" else [arg])
    return read


def read_graph(func: relax.Function, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    """Translate ``func``, whose parameters have the concrete ``shapes``."""
    return _Reader(func, shapes).graph()


class _Reader:
    def __init__(self, func: relax.Function, shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.func = func
        self.sizes: dict[str, int] = {}
        self.env: dict[relax.Var, Node] = {}
        for param in func.params:
            self.env[param] = Node(param.name, "input")
            self._bind_sizes(param, shapes[param.name])

    def graph(self) -> Graph:
        inputs = tuple(self.env.values())
        calls: list[Node] = []
        aliases: dict[str, Node] = {}
        for block in self.func.body.blocks:
            for binding in block.bindings:
                name, node = binding.var.name, self._node(binding.value, binding.var.name)
                self.env[binding.var] = node
                if node.name == name and node.op != "tuple":
                    calls.append(node)
                else:
                    aliases[name] = node
        names = [node.name for node in (*inputs, *calls)] + list(aliases)
        if len(set(names)) < len(names):
            repeated = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"variables {repeated} are bound more than once; make names unique")
        result = self._node(self.func.body.body, "")
        outputs = result.args if result.op == "tuple" else (result,)
        attrs = self.func.attrs
        requantize = attrs["int8.requantize"] if attrs and "int8.requantize" in attrs else "float"
        text = str(attrs["int8.qrange"]) if attrs and "int8.qrange" in attrs else "{}"
        ranges = {key: (int(low), int(high)) for key, (low, high) in json.loads(text).items()}
        return Graph(inputs, tuple(calls), outputs, aliases, ranges, str(requantize))

    def _bind_sizes(self, param: relax.Var, shape: tuple[int, ...]) -> None:
        wanted = list(param.ty.shape)
        if len(wanted) != len(shape):
            raise ValueError(f"input {param.name} has shape {shape}, expected {wanted}")
        for extent, size in zip(wanted, shape, strict=True):
            if type(extent).__name__ == "Var":
                self.sizes.setdefault(extent.name, size)
            if self._number(extent) != size:
                raise ValueError(f"input {param.name} has shape {shape}, expected {wanted}")

    def _node(self, value: Any, name: str) -> Node:
        if isinstance(value, relax.Var):
            return self.env[value]
        if isinstance(value, GenericConst):
            return Node("", "constant", value=value.value.numpy())
        if isinstance(value, relax.Tuple):
            return Node(name, "tuple", tuple(self._argument(item) for item in value.fields))
        if isinstance(value, relax.TupleGetItem):
            source = self._node(value.tuple_value, "")
            index = int(value.index)
            return (
                source.args[index] if source.op == "tuple" else Node(name, "item", (source, index))
            )
        if isinstance(value, relax.Call):
            op = value.op.name if hasattr(value.op, "name") else str(value.op)
            prefix = next((prefix for prefix in PREFIXES if op.startswith(prefix)), "")
            if op == "relax.call_dps_packed":
                return self._described(value, name)
            args = tuple(self._argument(arg) for arg in value.args)
            return Node(name, op[len(prefix) :], args, _plain_attrs(value.attrs))
        raise NotImplementedError(f"{name}: a {type(value).__name__} is not a call of an operator")

    def _described(self, value: relax.Call, name: str) -> Node:
        """Return an operator that Relax lacks: JSON says what it is, kind and attributes."""
        text, tensors = value.args
        fields = json.loads(str(text.global_symbol))
        kind = fields.pop("kind")
        attrs = {key: fields[key] for key in fields if key not in ("x", "y")}  # element types
        return Node(name, kind, tuple(self._argument(item) for item in tensors.fields), attrs)

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, relax.ShapeExpr):
            return tuple(self._number(extent) for extent in arg.values)
        if isinstance(arg, relax.Tuple):
            items = tuple(self._argument(item) for item in arg.fields)
            tensors = any(isinstance(item, Node) for item in items)
            return Node("", "tuple", items) if tensors else items
        if isinstance(arg, relax.Var | GenericConst | relax.Call | relax.TupleGetItem):
            return self._node(arg, "")
        if isinstance(arg, GlobalVar):
            raise NotImplementedError(
                f"kernel {arg.name_hint} is called: give the module before it is lowered"
            )
        return self._number(arg)

    def _number(self, value: Any) -> Any:
        if isinstance(value, int | float):
            return value
        kind = type(value).__name__
        if kind == "Var":
            return self.sizes[value.name]
        if kind in EXTENT_ARITHMETIC:
            return EXTENT_ARITHMETIC[kind](self._number(value.a), self._number(value.b))
        if hasattr(value, "value"):
            return self._number(value.value)
        raise NotImplementedError(f"extent {value} of kind {kind} is not understood")


def _plain_attrs(attrs: Any) -> dict[str, Any]:
    if attrs is None:
        return {}
    names = (name for name in dir(attrs) if not name.startswith("_") and name != "id_")
    values = {name: getattr(attrs, name) for name in names}
    return {name: _plain(value) for name, value in values.items() if not callable(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float) or value is None:
        return value
    if hasattr(value, "value"):
        return value.value
    return tuple(_plain(item) for item in value) if hasattr(value, "__len__") else str(value)
