"""TVM's ONNX importer, made to keep names and to leave the arithmetic of shapes to NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import tvm
from tvm import IRModule, relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.errors import FrontendError, Int8Error, UnsupportedOpError
from relay_int8.frontend.constant_results import keep_constant_results
from relay_int8.frontend.importing import (
    CONVERTER_ERRORS,
    SizedByValuesError,
    cut_option,
    reason_of,
)
from relay_int8.frontend.onnx.control_flow import ControlFlow
from relay_int8.frontend.onnx.counted.rows import number_of_rows, without_rest
from relay_int8.frontend.onnx.counted.sizes import Sizes
from relay_int8.frontend.onnx.counted.tensors import CountedTensors
from relay_int8.frontend.onnx.node_form import misfit, title_of
from relay_int8.frontend.onnx.operator_support import OURS
from relay_int8.frontend.onnx.operators.constant_nodes import (
    INTEGERS,
    MOVES,
    ScaledExtents,
    attribute,
    evaluate,
)
from relay_int8.frontend.onnx.operators.sequences import SEQUENCES, converted, is_list
from relay_int8.graph.dataflow import (
    FunctionWriter,
    calls,
    constant,
    dtype,
    operator,
    results,
    shape,
    substitute,
)

ELEMENTS = {"bool", "bfloat16", "float16", "float32", "float64"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
MAX_ELEMENTS = 1 << 40  # of a tensor; no computer that runs networks has memory for more
ELEMENTS_SAID = "bool, integers of 8 to 64 bits and floats of 16 to 64"


class NamedImporter(ControlFlow):
    """Import a graph whose operators are known and whose shapes are static.

    Parameters
    ----------
    shapes
        Shape of each data input.
    opset
        Version of the standard operators.
    cut_points
        Node that cannot be imported -> tensors at which a user can cut the model in front of it.
    """

    def __init__(
        self,
        shapes: dict[str, list[int]],
        *,
        opset: int,
        cut_points: Callable[[onnx.NodeProto], Sequence[str]],
    ) -> None:
        super().__init__(shapes, "float32", sanitize=False)
        self.opset = opset
        self._cut_points = cut_points
        self.output_shapes: dict[str, tuple[int, ...]] = {}
        self._left_out: dict[str, onnx.NodeProto] = {}
        self._names: dict[relax.Var, str] = {}
        self._of_shapes: set[str] = set()
        self._scaled = ScaledExtents(opset)
        self._outputs: set[relax.Var] = set()
        self._counted = CountedTensors(Sizes(self.bb, opset, self._convert_values))
        self.rows: dict[str, list[str]] = {}

    def run(self, graph: onnx.GraphProto) -> IRModule:
        """Return the module of ``graph``."""
        try:
            self._counted.look_ahead(graph)
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
        try:
            with self.bb.function("main", params=params):
                with self.bb.dataflow():
                    for node in graph.node:
                        self._import_node(node)
                    outputs = [self._output(value) for value in graph.output]
                    outputs += self._numbers_of_rows(graph)
                    returned = self.bb.emit_output(relax.Tuple(outputs))
                self.bb.emit_func_output(returned)
        except Int8Error:
            self.bb._end_block()  # TVM 0.27 leaves one open, and writes a warning for the user
            raise
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
        if is_list(value):
            raise UnsupportedOpError(f"output {name} is a list of tensors: make outputs of these")
        is_float = isinstance(value.ty, relax.TensorType) and dtype(value).startswith("float")
        if is_float and declared.type.tensor_type.elem_type in INTEGERS:
            raise UnsupportedOpError(
                f"output {name} is of integers in the file, of {dtype(value)} here: integers that "
                "a network quantizes by ranges of its own (DynamicQuantizeLinear) are not computed"
            )
        value = self._counted.real(value)
        counted = self._counted.of(value)
        if counted is not None:
            self._names.pop(value, None)
            value = self.bb.emit(without_rest(self._emit, value, counted))
        elif not isinstance(value, relax.Var):
            value = self.bb.emit(value)
        elif name != value.name and (value in self._outputs or value.name in self._input_names):
            value = self.bb.emit(relax.op.reshape(value, shape(value)))  # a result of its own
        self.output_shapes[name] = shape(value)
        if value.name not in self._input_names:
            self._names[value] = name
        self._outputs.add(value)
        return value

    def _numbers_of_rows(self, graph: onnx.GraphProto) -> list[relax.Var]:
        """Return outputs that say how many rows of others there are, one for those of one number.

        Its name is that of the first of them with ``.rows`` behind it.
        """
        found: dict[relax.Expr, list[str]] = {}
        for declared in graph.output:
            counted = self._counted.of(self._nodes[declared.name])
            if counted is not None:
                found.setdefault(counted.live, []).append(declared.name)
        numbers = []
        for live, names in found.items():
            number = self.bb.emit(number_of_rows(self._emit, live))
            self.rows[f"{names[0]}.rows"] = names
            self._names[number] = f"{names[0]}.rows"
            numbers.append(number)
        return numbers

    def _emit(self, _: str, value: relax.Expr) -> relax.Var:
        return self.bb.emit(value)

    def _refuse_left_out(self, name: str) -> None:
        """Refuse to read a tensor that its node's converter does not compute."""
        if name in self._left_out:
            node = self._left_out[name]
            raise UnsupportedOpError(
                f"node {title_of(node)} ({node.op_type}) of opset {self.opset}: its output {name} "
                f"(number {list(node.output).index(name) + 1}) is not supported; export the model "
                "without what reads it"
            )

    def _import_node(self, node: onnx.NodeProto) -> None:
        if (fault := misfit(node, self.opset)) is not None:
            raise FrontendError(
                f"node {title_of(node)} ({node.op_type}) of opset {self.opset}: {fault}; export "
                "the model again"
            )
        if self._import_control_flow(node):
            return
        try:
            inputs = onnx_frontend.onnx_input(self._nodes[i] if i else None for i in node.input)
        except KeyError as err:
            self._refuse_left_out(err.args[0])
            raise FrontendError(
                f"node {title_of(node)} reads {err}, which nothing computes: the file is incomplete"
            ) from err
        try:
            values = self._results(node, inputs)
            for value in values:
                if not isinstance(value, list):
                    _check_type(value)
        except CONVERTER_ERRORS as err:
            advice = ""
            if isinstance(err, SizedByValuesError):
                points = cut_option(self._cut_points(node))
                advice = f"; make outputs of what it and what follows read ({points})"
            raise UnsupportedOpError(
                f"node {title_of(node)} ({node.op_type}) of opset {self.opset} cannot be imported: "
                f"{reason_of(err)}{advice}"
            ) from err
        self._left_out.update((name, node) for name in node.output[len(values) :] if name)
        for name, value in zip(node.output, values, strict=False):
            if not name:
                continue
            self._nodes[name] = value
            if isinstance(value, relax.Var) and value.name not in self._input_names:
                self._names.setdefault(value, name)

    def _results(self, node: onnx.NodeProto, inputs: Any) -> list[Any]:
        """Return the results of a node that is no branch and no loop; lists are Python's."""
        if node.op_type in SEQUENCES and not node.domain:
            self._counted.refuse(inputs)
            attributes = self._parse_attr(node.attribute)
            return [converted(node.op_type, self.bb, list(inputs), attributes)]
        if any(is_list(value) for value in inputs):
            raise NotImplementedError("it reads a list of tensors")
        if (counted := self._counted.results(node, list(inputs))) is not None:
            return counted
        return self._fold(node, list(inputs)) or self._convert(node, inputs)

    def _fold(self, node: onnx.NodeProto, inputs: list[Any]) -> list[relax.Expr] | None:
        """Compute a node of constants, unless it is float arithmetic: FoldConstants does that."""
        if node.op_type == "Shape" and inputs[0].ty.shape is not None:
            extents = np.array(shape(inputs[0]), "int64")
            start, end = (attribute(node, key) for key in ("start", "end"))
            self._of_shapes.update(node.output)
            return [relax.const(extents[start:end], "int64")]
        arrays = [None if value is None else constant(value) for value in inputs]
        present = [name for name in node.input if name]
        if (sizes := self._scaled.integers(node, arrays)) is not None:
            return [relax.const(sizes, str(sizes.dtype))]
        if any(a is None and v is not None for a, v in zip(arrays, inputs, strict=True)):
            return None
        of_shapes = bool(self._of_shapes & set(present))
        exact = node.op_type in MOVES or all(a.dtype.kind in "iub" for a in arrays if a is not None)
        if node.op_type == "DequantizeLinear" or not (exact or of_shapes):
            return None
        if of_shapes:
            self._of_shapes.update(node.output)
        return [relax.const(a, str(a.dtype)) for a in evaluate(node, arrays, self.opset)]

    def _convert_values(self, node: onnx.NodeProto, values: list[Any]) -> list[relax.Expr]:
        return self._convert(node, onnx_frontend.onnx_input(values))

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
            raise SizedByValuesError("how large its result is depends on values of the input")
        for item in values:
            if isinstance(item.ty, relax.TensorType) and not _is_possible(shape(item)):
                raise ValueError(f"its result would be {list(shape(item))}")
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
        return keep_constant_results(writer.finish(list(func.params), outputs))


def _check_type(value: relax.Expr) -> None:
    """Refuse elements that no kernel computes with; other values than tensors have none."""
    if isinstance(value.ty, relax.TensorType) and dtype(value) not in ELEMENTS:
        raise NotImplementedError(f"elements of {dtype(value)}; only {ELEMENTS_SAID} are read")


def _is_possible(extents: tuple[int, ...]) -> bool:
    """Whether there can be a tensor of that shape, empty ones included."""
    return all(extent >= 0 for extent in extents) and math.prod(extents) < MAX_ELEMENTS


def _is_static(value: relax.Expr) -> bool:
    """Whether the shape of a tensor is known; other values have none."""
    if not isinstance(value.ty, relax.TensorType):
        return True
    return value.ty.shape is not None and all(isinstance(n, int) for n in shape(value))
