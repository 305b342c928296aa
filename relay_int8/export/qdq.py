"""A quantized model as a QDQ ONNX file: the form that other runtimes compute in integers.

    x -> QuantizeLinear -> DequantizeLinear -> Conv -> Relu -> QuantizeLinear -> ...
    weights: int8 initializers -> DequantizeLinear, a scale per output channel
    biases:  int32 initializers -> DequantizeLinear by ``s_x * s_w``, or float32 as they are

Every tensor keeps its name; its integers are ``NAME:q``, what they stand for is ``NAME:dq``. A
relu or clip that the type's own bounds imply is left out, because runtimes compute convolution and
quantization in integers only where nothing stands between. Ranges narrower than their type have no
place in ONNX: they are in the metadata ``int8.qrange``, which the frontend reads back.

How close a runtime comes (docs/how-to/qdq.md says why): from equal integers each operator gives
integers at most one step away.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal

import numpy as np
import onnx
from onnx import helper
from tvm import IRModule, relax

from relay_int8.errors import UnsupportedOpError
from relay_int8.export.onnx_nodes import Array, NodeWriter, Operation
from relay_int8.export.onnx_operators import converter
from relay_int8.export.onnx_windows import conv_attributes
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import QRANGE
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.numerics import qparams
from relay_int8.operators.conv2d import Conv2d
from relay_int8.operators.dense import Dense
from relay_int8.operators.linear import Linear
from relay_int8.operators.registry import operator_of
from relay_int8.version import __version__

OPSET, IR_VERSION = 19, 9
BATCH = "N"  # name of an open batch
BiasForm = Literal["int32", "float"]


def export_qdq(
    mod: IRModule,
    outputs: Sequence[str] | None = None,
    *,
    bias: BiasForm = "int32",
    open_batch: bool = False,
) -> onnx.ModelProto:
    """Return a QDQ module (``QuantizedModel.mod``) as an ONNX model of opset 19.

    Parameters
    ----------
    mod
        ``main`` with Q/DQ pairs; any float module will do.
    outputs
        Names of the results, in order; their variables' own if None.
    bias
        "int32": quantized, as ONNX Runtime computes with. "float": as they are, which TensorRT
        wants.
    open_batch
        Leave the leading extent of inputs and outputs open, whatever the module's is.

    Raises
    ------
    UnsupportedOpError
        Operators that ONNX has no node for; all of them are listed.
    """
    return _Exporter(mod["main"], outputs, bias, open_batch).run()


class _Exporter:
    """Writes one function as ONNX."""

    def __init__(
        self,
        func: relax.Function,
        outputs: Sequence[str] | None,
        bias: BiasForm,
        open_batch: bool,
    ) -> None:
        self._func, self._bias_form = func, bias
        self._values = dict(dataflow.calls(func))
        self._readers = dataflow.consumers(func)
        self._results = dataflow.results(func)
        self._outputs = list(outputs or [str(var.name) for var in self._results])
        self._qrange: dict[str, tuple[int, int]] = json.loads(
            str(dataflow.attributes(func).get(QRANGE, "{}"))
        )
        self._writer = NodeWriter(open_batch)
        self._biased = {
            group.members[1]: group
            for group in find_groups(func)
            if isinstance(operator_of(group), Linear) and group.bias is not None
        }
        self._absorbed = {group.members[0] for group in self._biased.values()}
        self._names = self._named()

    def run(self) -> onnx.ModelProto:
        """Write every operator, then what no operator is called by: results."""
        faults = []
        for var, value in self._values.items():
            try:
                self._write(var, value)
            except (NotImplementedError, KeyError) as error:
                faults.append(f"{var.name} ({dataflow.operator(value)}): {error}")
        if faults:
            raise UnsupportedOpError(
                f"these have no ONNX form: {'; '.join(faults)}; cut the model before them"
            )
        for var, name in zip(self._results, self._outputs, strict=True):
            if self._names[var] != name:
                self._writer.node("Identity", [self._names[var]], name)
        return self._model()

    def _named(self) -> dict[relax.Var, str]:
        """Return the ONNX name of every tensor: its own, or that of the result it is."""
        names = {param: str(param.name) for param in self._func.params}
        for var, name in zip(self._results, self._outputs, strict=True):
            if var not in names and name not in names.values():
                names[var] = name
        taken = {*names.values(), *self._outputs}
        for var in self._values:
            if var not in names:
                free = str(var.name) not in taken
                names[var] = str(var.name) if free else f"{var.name}:float"
        for var in reversed(self._values):
            if self._is_implied(var):
                source = self._values[var].args[0]
                if len(self._readers[source]) == 1 and source not in self._results:
                    names[source] = names[var]
        return names

    def _is_implied(self, var: relax.Var) -> bool:
        """Say whether ``var`` bounds values no tighter than the quantize that alone reads it."""
        value, readers = self._values[var], self._readers[var]
        if dataflow.operator(value) not in ("nn.relu", "clip") or var in self._results:
            return False
        if not isinstance(value.args[0], relax.Var) or value.args[0] not in self._values:
            return False
        if len(readers) != 1 or dataflow.operator(self._values[readers[0]]) != "quantize":
            return False
        quantize = self._values[readers[0]]
        scale, zero = (dataflow.constant(argument) for argument in quantize.args[1:])
        if scale is None or zero is None or scale.size != 1:
            return False
        bounds = (
            [0.0, np.inf]
            if dataflow.operator(value) == "nn.relu"
            else [dataflow.number(bound) for bound in value.args[1:]]
        )
        info = np.iinfo(dataflow.dtype(readers[0]))
        low, high = np.rint(np.array(bounds) / np.float64(scale)) + int(zero)
        return bool(low <= info.min and high >= info.max)

    def _write(self, var: relax.Var, value: relax.Expr) -> None:
        operator = dataflow.operator(value)
        if var in self._absorbed or operator == "tuple_get_item":
            return
        if self._is_implied(var):
            if self._names[var] != self._names[value.args[0]]:
                self._names[var] = self._names[value.args[0]]
        elif var in self._biased:
            self._linear(var, self._biased[var])
        elif operator in ("quantize", "dequantize"):
            self._pair(var, value)
        else:
            self._plain(var, value)

    def _plain(self, var: relax.Var, value: relax.Expr) -> None:
        write = converter(dataflow.operator(value))
        if write is None:
            raise NotImplementedError("no ONNX operator is known for it")
        write(self._writer, Operation(value, self._inputs(var, value), self._given(var)))

    def _inputs(self, var: relax.Var, value: relax.Expr) -> list[str]:
        """Return the names of the tensors a call reads; constants become initializers."""
        names = []
        for index, argument in enumerate(dataflow.arguments(value)):
            array = dataflow.constant(argument)
            if array is not None:
                names.append(self._writer.array(f"{var.name}:{index}", array))
            elif isinstance(argument, relax.Var):
                names.append(self._names[argument])
        return names

    def _given(self, var: relax.Var) -> list[str]:
        """Return the names of what a call gives: its own, or those of a tuple's parts."""
        if not isinstance(var.ty, relax.TupleType):
            return [self._names[var]]
        parts = [f"{self._names[var]}:{index}" for index in range(len(var.ty.fields))]
        for reader in self._readers[var]:
            parts[int(self._values[reader].index)] = self._names[reader]
        return parts

    def _pair(self, var: relax.Var, value: relax.Call) -> None:
        """Write one half of a Q/DQ pair; of constant weights, the integers themselves."""
        quantized = dataflow.operator(value) == "quantize"
        array = dataflow.constant(value.args[0])
        if quantized and array is not None:
            self._names[var] = self._writer.array(self._names[var], self._integers(var, value))
            return
        source = self._inputs(var, relax.Call(value.op, value.args[:1], value.attrs))
        scale, zero = (dataflow.constant(argument) for argument in value.args[1:])
        if scale is None or zero is None:
            raise NotImplementedError("its scale or zero point is computed, not constant")
        dtype = dataflow.dtype(var) if quantized else dataflow.dtype(value.args[0])
        inputs = [
            *source,
            self._writer.array(f"{var.name}:scale", scale.astype(np.float32)),
            self._writer.array(f"{var.name}:zero_point", zero.astype(dtype)),
        ]
        axis = {"axis": int(value.attrs.axis)} if scale.ndim else {}
        name = "QuantizeLinear" if quantized else "DequantizeLinear"
        self._writer.node(name, inputs, self._names[var], **axis)

    def _integers(self, var: relax.Var, value: relax.Call) -> Array:
        """Return constant weights as integers, by the float64 division of the contract."""
        array, scale, zero = (dataflow.constant(argument) for argument in value.args)
        assert array is not None and scale is not None and zero is not None
        info = np.iinfo(dataflow.dtype(var))
        low, high = self._qrange.get(str(var.name), (info.min, info.max))
        along = [1] * array.ndim
        if scale.size > 1:
            along[int(value.attrs.axis)] = scale.size
        steps = np.rint(array.astype(np.float64) / scale.astype(np.float64).reshape(along))
        integers: Array = np.clip(
            steps + zero.reshape(along if zero.size > 1 else ()), low, high
        ).astype(info.dtype)
        return integers

    def _linear(self, var: relax.Var, group: Group) -> None:
        """Write a convolution or product with its bias."""
        root = self._values[group.members[0]]
        inputs, bias = self._inputs(group.members[0], root), self._bias(group)
        if isinstance(operator_of(group), Conv2d):
            attributes = conv_attributes(root)
            self._writer.node("Conv", [*inputs, bias], self._names[var], **attributes)
        elif len(dataflow.shape(root.args[0])) == 2:
            self._writer.node("Gemm", [*inputs, bias], self._names[var])
        else:
            product = self._writer.node("MatMul", inputs, f"{self._names[var]}/matmul")
            self._writer.node("Add", [product, bias], self._names[var])

    def _bias(self, group: Group) -> str:
        """Write the bias of a layer, quantized by ``s_x * s_w`` where its operands are."""
        assert group.weight is not None and group.bias is not None
        name, s_x, s_w = f"{group.name}:bias", self._input_scale(group), group.weight.scale
        is_matrix = len(dataflow.shape(group.inputs[0])) == 2
        is_product = isinstance(operator_of(group), Dense) and not is_matrix
        if self._bias_form == "float" or s_x is None or s_w is None or is_product:
            return self._writer.array(name, group.bias)
        s_w = np.broadcast_to(s_w, group.bias.shape)
        integers = qparams.quantize_bias(group.bias, s_x, s_w)
        scale = (np.float64(s_x) * s_w.astype(np.float64)).astype(np.float32)
        if not (np.isfinite(scale) & (scale > 0)).all():
            return self._writer.array(name, group.bias)
        inputs = [
            self._writer.array(f"{name}:q", integers),
            self._writer.array(f"{name}:scale", scale),
            self._writer.array(f"{name}:zero_point", np.zeros(len(integers), np.int32)),
        ]
        return self._writer.node("DequantizeLinear", inputs, name, axis=0)

    def _input_scale(self, group: Group) -> np.float32 | None:
        call = self._values.get(group.inputs[0])
        if call is None or dataflow.operator(call) != "dequantize":
            return None
        scale = dataflow.constant(call.args[1])
        return None if scale is None or scale.size != 1 else np.float32(scale.reshape(()))

    def _model(self) -> onnx.ModelProto:
        inputs = [self._value_info(str(param.name), param) for param in self._func.params]
        outputs = [
            self._value_info(name, var)
            for var, name in zip(self._results, self._outputs, strict=True)
        ]
        body = helper.make_graph(
            self._writer.nodes, "main", inputs, outputs, self._writer.initializers
        )
        model = helper.make_model(
            body,
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR_VERSION,
            producer_name="relay-int8",
            producer_version=__version__,
        )
        if self._qrange:
            helper.set_model_props(model, {QRANGE: json.dumps(self._qrange)})
        onnx.checker.check_model(model, full_check=True)
        return model

    def _value_info(self, name: str, var: relax.Var) -> onnx.ValueInfoProto:
        dtype = helper.np_dtype_to_tensor_dtype(np.dtype(dataflow.dtype(var)))
        extents: list[int | str] = list(dataflow.shape(var))
        if self._writer.open_batch:
            extents[0] = BATCH
        return helper.make_tensor_value_info(name, dtype, extents)
