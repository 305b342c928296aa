"""TVM's ONNX importer, made to keep names and to leave the arithmetic of shapes to NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import IRModule, relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.importing import CONVERTER_ERRORS, refuse_operators
from relay_int8.frontend.onnx.converters import CONVERTERS
from relay_int8.frontend.onnx.functions import EXPANDED
from relay_int8.frontend.onnx.indices import gathered_elements
from relay_int8.frontend.onnx.quantized import MICROSOFT, QUANTIZED
from relay_int8.graph.dataflow import (
    FunctionWriter,
    arguments,
    calls,
    constant,
    dtype,
    operator,
    results,
    shape,
    substitute,
)

MS = "com.microsoft"
SEQUENCES = {
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
}
"""Of lists of tensors: TVM's importer takes any operand for one, and no kernel here takes them."""
UNTRIMMED = {"NonMaxSuppression"}
"""TVM's importer gives as many rows as there could be, not those that there are."""
CONTRIB = {"FastGelu", "BiasGelu", "SkipLayerNormalization", "EmbedLayerNormalization"}

OURS = CONVERTERS | QUANTIZED | MICROSOFT

# Operators that move values or make them of shapes: no rounding, whatever the type.
MOVES = {
    "Cast",
    "Concat",
    "ConstantOfShape",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Range",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
}


BRANCH = "If"
"""Exporters choose by a shape whether they squeeze; where shapes are static that is decided."""

ELEMENTS = {"bool", "bfloat16", "float16", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
INTEGERS = {
    onnx.helper.np_dtype_to_tensor_dtype(np.dtype(f"{sign}int{bits}"))
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
"""As a file numbers their types."""
ELEMENTS_SAID = "bool, integers of 8 to 64 bits and floats of 16 to 64"

MAX_ELEMENTS = 1 << 24
"""Of a constant that the graph computes; weights are in the file and have no such bound."""


def unsupported_nodes(graph: onnx.GraphProto) -> dict[str, list[str]]:
    """Return the operators that cannot be imported, each with the names of its nodes."""
    standard_ones = {*onnx_frontend._get_convert_map(), *CONVERTERS, *QUANTIZED, BRANCH}
    standard_ones -= CONTRIB | SEQUENCES | UNTRIMMED | EXPANDED
    known = {"": standard_ones - set(MICROSOFT), MS: CONTRIB | set(MICROSOFT)}
    missing: dict[str, list[str]] = {}
    for node in graph.node:
        if node.op_type not in known.get(node.domain.removeprefix("ai.onnx"), ()):
            operator_name = f"{node.domain}.{node.op_type}".removeprefix(".")
            missing.setdefault(operator_name, []).append(_title(node))
    return missing


class NamedImporter(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """Import a graph whose operators are known and whose shapes are static.

    Parameters
    ----------
    shapes
        Shape of each data input.
    opset
        Version of the standard operators.
    """

    def __init__(self, shapes: dict[str, list[int]], *, opset: int) -> None:
        super().__init__(shapes, "float32", sanitize=False)
        self.opset = opset
        self.output_shapes: dict[str, tuple[int, ...]] = {}
        self._left_out: dict[str, onnx.NodeProto] = {}
        self._names: dict[relax.Var, str] = {}
        self._of_shapes: set[str] = set()
        self._outputs: set[relax.Var] = set()

    def run(self, graph: onnx.GraphProto) -> IRModule:
        """Return the module of ``graph``."""
        try:
            self._parse_graph_initializers(graph)
            self._dtype = None
            self._parse_graph_input(graph)
        except CONVERTER_ERRORS as err:
            raise FrontendError(f"its inputs or initializers cannot be read: {err}") from err
        for name, value in self._nodes.items():
            try:
                _check_type(value)
            except NotImplementedError as err:
                raise UnsupportedOpError(f"tensor {name} cannot be imported: {err}") from err
        params = [self._nodes[name] for name in self._input_names]
        with self.bb.function("main", params=params):
            with self.bb.dataflow():
                for node in graph.node:
                    self._import_node(node)
                outputs = [self._output(value) for value in graph.output]
                returned = self.bb.emit_output(relax.Tuple(outputs))
            self.bb.emit_func_output(returned)
        return self._renamed(self.bb.get())

    @property
    def constants(self) -> dict[relax.Expr, str]:
        """Name of every constant in the file, or of what was computed of constants."""
        named = ((value, name) for name, value in self._nodes.items())
        return {value: name for value, name in named if isinstance(value, tvm.ir.GenericConst)}

    def _output(self, declared: onnx.ValueInfoProto) -> relax.Var:
        name = declared.name
        value = self._nodes.get(name)
        if value is None:
            self._refuse_left_out(name)
            raise FrontendError(f"output {name} is computed by no node: the file is incomplete")
        is_float = isinstance(value.ty, relax.TensorType) and dtype(value).startswith("float")
        if is_float and declared.type.tensor_type.elem_type in INTEGERS:
            raise UnsupportedOpError(
                f"output {name} is of integers in the file, of {dtype(value)} here: integers that "
                "a network quantizes by ranges of its own (DynamicQuantizeLinear) are not computed"
            )
        if not isinstance(value, relax.Var):
            value = self.bb.emit(value)
        elif name != value.name and (value in self._outputs or value.name in self._input_names):
            value = self.bb.emit(relax.op.reshape(value, shape(value)))  # a result of its own
        self.output_shapes[name] = shape(value)
        if value.name not in self._input_names:
            self._names[value] = name
        self._outputs.add(value)
        return value

    def _refuse_left_out(self, name: str) -> None:
        """Refuse to read a tensor that its node's converter does not compute."""
        if name in self._left_out:
            node = self._left_out[name]
            raise UnsupportedOpError(
                f"node {_title(node)} ({node.op_type}) of opset {self.opset}: its output {name} "
                f"(number {list(node.output).index(name) + 1}) is not supported; export the model "
                "without what reads it"
            )

    def _import_node(self, node: onnx.NodeProto) -> None:
        if node.op_type == BRANCH and not node.domain:
            self._import_branch(node)
            return
        try:
            inputs = onnx_frontend.onnx_input(self._nodes[i] if i else None for i in node.input)
        except KeyError as err:
            self._refuse_left_out(err.args[0])
            raise FrontendError(
                f"node {_title(node)} reads {err}, which nothing computes: the file is incomplete"
            ) from err
        try:
            values = self._fold(node, list(inputs)) or self._convert(node, inputs)
            for value in values:
                _check_type(value)
        except CONVERTER_ERRORS as err:
            reason = str(err).strip().splitlines()
            raise UnsupportedOpError(
                f"node {_title(node)} ({node.op_type}) of opset {self.opset} cannot be imported: "
                f"{reason[-1] if reason else type(err).__name__}"
            ) from err
        self._left_out.update((name, node) for name in node.output[len(values) :] if name)
        for name, value in zip(node.output, values, strict=False):
            if not name:
                continue
            self._nodes[name] = value
            if isinstance(value, relax.Var) and value.name not in self._input_names:
                self._names.setdefault(value, name)

    def _import_branch(self, node: onnx.NodeProto) -> None:
        """Import what a constant condition chooses, as if it stood in the graph itself."""
        condition = constant(self._nodes.get(node.input[0])) if node.input else None
        if condition is None:
            raise UnsupportedOpError(
                f"node {_title(node)} (If) chooses by values of the input; a network has one "
                "branch: export it without the choice"
            )
        try:
            branches = {attribute.name: attribute.g for attribute in node.attribute}
            branch = branches["then_branch" if condition.reshape(-1)[0] else "else_branch"]
            refuse_operators(unsupported_nodes(branch))
            self._parse_graph_initializers(branch)
            for inner in branch.node:
                self._import_node(inner)
            for name, value in zip(node.output, branch.output, strict=True):
                self._nodes[name] = self._nodes[value.name]
                self._of_shapes.update({name} if value.name in self._of_shapes else ())
        except CONVERTER_ERRORS as err:
            raise FrontendError(f"node {_title(node)} (If) has no whole branch: {err}") from err

    def _fold(self, node: onnx.NodeProto, inputs: list[Any]) -> list[relax.Expr] | None:
        """Compute a node of constants, unless it is float arithmetic: FoldConstants does that."""
        if node.op_type == "Shape" and inputs[0].ty.shape is not None:
            extents = np.array(shape(inputs[0]), "int64")
            start, end = (_attribute(node, key) for key in ("start", "end"))
            self._of_shapes.update(node.output)
            return [relax.const(extents[start:end], "int64")]
        arrays = [None if value is None else constant(value) for value in inputs]
        present = [name for name in node.input if name]
        if any(a is None and v is not None for a, v in zip(arrays, inputs, strict=True)):
            return None
        of_shapes = bool(self._of_shapes & set(present))
        exact = node.op_type in MOVES or all(a.dtype.kind in "iub" for a in arrays if a is not None)
        if node.op_type == "DequantizeLinear" or not (exact or of_shapes):
            return None
        if of_shapes:
            self._of_shapes.update(node.output)
        return [relax.const(a, str(a.dtype)) for a in _evaluate(node, arrays, self.opset)]

    def _convert(self, node: onnx.NodeProto, inputs: Any) -> list[relax.Expr]:
        attributes = self._parse_attr(node.attribute)
        attributes["tvm_custom"] = {
            "name": node.name,
            "num_outputs": max(i for i, name in enumerate(node.output, 1) if name or i == 1),
            "opset": self.opset,
        }
        if node.op_type in OURS:
            value = OURS[node.op_type](self.bb, list(inputs), attributes)
        else:
            value = self._convert_operator(node.op_type, inputs, attributes, self.opset)
        value = self._emitted(value, len(node.output))
        values = list(value.fields) if isinstance(value, relax.Tuple) else [value]
        if not all(_is_static(item) for item in values):
            raise NotImplementedError(
                "how large its result is depends on values of the input: cut the model before it"
            )
        return values

    def _emitted(self, value: relax.Expr, count: int) -> relax.Expr:
        """Bind every call, so that each tensor of the file has a variable of its own."""
        if isinstance(value, relax.Tuple):
            return relax.Tuple([self._emitted(field, 1) for field in value.fields[:count]])
        if isinstance(value, relax.Call | relax.TupleGetItem):
            value = self.bb.emit(value)
        if isinstance(value.ty, relax.TupleType):
            items = [relax.TupleGetItem(value, i) for i in range(count)]
            return relax.Tuple([self.bb.emit(item) for item in items])
        return value

    def _renamed(self, mod: IRModule) -> IRModule:
        """Write the function again, each variable under its tensor's name."""
        func = mod["main"]
        names: dict[relax.Var, str] = {}
        owner = "output"
        for var, value in reversed(list(calls(func))):
            owner = self._names.get(var, owner)
            names[var] = self._names.get(var, f"{owner}/{operator(value).split('.')[-1]}")
        writer = FunctionWriter(mod)
        written: dict[relax.Var, relax.Expr] = {}
        for var, value in calls(func):
            written[var] = writer.emit(names[var], substitute(value, written))
        outputs = [written.get(var, var) for var in results(func)]
        _check_computed(func, names)
        return writer.finish(list(func.params), outputs)


def _evaluate(
    node: onnx.NodeProto, arrays: list[np.ndarray | None], opset: int
) -> list[np.ndarray]:
    """Compute one node with ONNX's reference implementation."""
    if (count := _elements(node.op_type, arrays)) > MAX_ELEMENTS:
        raise ValueError(f"it makes a constant of {count} elements; {MAX_ELEMENTS} are the most")
    if node.op_type == "GatherElements" and arrays[0] is not None and arrays[1] is not None:
        return [gathered_elements(arrays[0], arrays[1], _attribute(node, "axis") or 0)]
    given = {n: a for n, a in zip(node.input, arrays, strict=True) if a is not None}
    graph = onnx.helper.make_graph(
        [node],
        "constant",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, given)]


def _elements(op_type: str, arrays: list[np.ndarray | None]) -> int:
    """Return how many elements an operator makes that can make more than it reads."""
    given = [np.zeros(0) if array is None else array for array in arrays]
    if op_type == "ConstantOfShape":
        return math.prod(int(extent) for extent in given[0].reshape(-1))
    if op_type == "Tile":
        return given[0].size * math.prod(int(count) for count in given[1].reshape(-1))
    if op_type == "Expand":
        target = [int(extent) for extent in given[1].reshape(-1)]
        return math.prod(np.broadcast_shapes(given[0].shape, target))
    if op_type == "Range":
        start, limit, delta = (float(array.reshape(-1)[0]) for array in given)
        return math.ceil((limit - start) / delta)
    return 0


def _check_computed(func: relax.Function, names: Mapping[relax.Var, str]) -> None:
    """Refuse a result that no input goes into: passes take it for a weight, and fold it away."""
    computed = set(func.params)
    for var, value in calls(func):
        if any(argument in computed for argument in arguments(value)):
            computed.add(var)
    for var in results(func):
        if var not in computed:
            raise UnsupportedOpError(
                f"output {names[var]} is constant: it depends on no input; take it from the outputs"
            )


def _check_type(value: relax.Expr) -> None:
    """Refuse elements that no kernel computes with; other values than tensors have none."""
    if isinstance(value.ty, relax.TensorType) and dtype(value) not in ELEMENTS:
        raise NotImplementedError(f"elements of {dtype(value)}; only {ELEMENTS_SAID} are read")


def _attribute(node: onnx.NodeProto, name: str) -> int | None:
    return next((int(a.i) for a in node.attribute if a.name == name), None)


def _is_static(value: relax.Expr) -> bool:
    """Whether the shape of a tensor is known; other values have none."""
    if not isinstance(value.ty, relax.TensorType):
        return True
    return value.ty.shape is not None and all(isinstance(n, int) for n in shape(value))


def _title(node: onnx.NodeProto) -> str:
    """Return a node's name, or its first output's where it has none."""
    return str(node.name or node.output[0])
