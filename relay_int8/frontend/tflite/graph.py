"""From the operators of a TFLite graph to Relax, one after the other.

    Before:  y = CONV_2D(x, w, b), all of them integers with scales
    After:   y = quantize(conv2d(dequantize(x), dequantize(w)) + dequantize(b));  ...

A quantized tensor is its quantize/dequantize pair, with the file's scale and zero point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import IRModule, relax

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.importing import (
    MAX_EXTENT,
    ImportWriter,
    converting,
    refuse_operators,
)
from relay_int8.frontend.tflite.converters import CONVERTERS, SETTINGS
from relay_int8.frontend.tflite.file import TfliteModel, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.step import TfliteStep
from relay_int8.frontend.tflite.tensors import (
    QUANTIZED,
    TO_NHWC,
    Held,
    Image,
    Result,
    dequantize,
    quantization_of,
    quantize,
)
from relay_int8.graph.dataflow import shape


class TfliteImporter:
    """Imports one TFLite graph into Relax.

    Parameters
    ----------
    model
        What the file holds.
    batch
        Leading extent of every input, in place of the file's.
    """

    def __init__(self, model: TfliteModel, batch: int | None) -> None:
        self._model = model if batch is None else _with_batch(model, batch)
        self._batch = batch
        self._writer = ImportWriter()
        self._held: dict[int, Held] = {}
        self._inputs: set[str] = set()

    def run(self) -> IRModule:
        """Return the module."""
        operators = self._needed()
        _refuse_unsupported(operators, self._model.tensors)
        params = [self._input(index) for index in self._model.inputs]
        for operator in operators:
            self._convert(operator)
        return self._writer.finish(params, [self._output(i) for i in self._model.outputs])

    def _needed(self) -> list[TfliteOperator]:
        """Return the operators that the results depend on, in order."""
        wanted = set(self._model.outputs)
        needed = []
        for operator in reversed(self._model.operators):
            if wanted.intersection(operator.outputs):
                wanted.update(_data(operator))
                needed.append(operator)
        return needed[::-1]

    def _input(self, index: int) -> relax.Var:
        tensor = self._model.tensors[index]
        if not all(0 < extent < MAX_EXTENT for extent in tensor.shape):
            raise FrontendError(
                f"input {tensor.name} has shape {list(tensor.shape)}; convert the model with a "
                "fixed size"
            )
        if tensor.name in self._inputs:
            raise FrontendError(f"two inputs of the model are called {tensor.name}")
        self._inputs.add(tensor.name)
        _refuse_wide(tensor)
        param = relax.Var(tensor.name, relax.TensorType(tensor.shape, tensor.dtype))
        self._held[index] = Held(plain=param)
        if quantization_of(tensor):
            real = self._writer.emit(f"{tensor.name}/dq", dequantize(param, tensor))
            self._held[index] = Held(plain=real, integers=param)
        return param

    def _convert(self, operator: TfliteOperator) -> None:
        """Bind the results of an operator."""
        tensors = self._model.tensors
        outputs = [tensors[index] for index in operator.outputs]
        title = f"{operator.kind} (its result: {outputs[0].name})"
        step = TfliteStep(
            operator=operator,
            inputs=[None if index < 0 else tensors[index] for index in operator.inputs],
            outputs=outputs,
            bind=self._writer.emit,
            held=self._operands(operator, title),
            scaled=self._batch is not None,
        )
        with converting(title):
            converted = CONVERTERS[operator.kind](step)
            results = [converted] if isinstance(converted, relax.Expr | Image) else list(converted)
            if len(results) != len(outputs):
                raise ValueError(f"it has {len(outputs)} results, not {len(results)}")
            for index, result in zip(operator.outputs, results, strict=True):
                self._bind(index, result)

    def _operands(self, operator: TfliteOperator, title: str) -> dict[int, Held]:
        """Return the computed operands by their position; weights and settings are none."""
        operands = {}
        for position, index in enumerate(operator.inputs):
            if index in self._held:
                operands[position] = self._held[index]
            elif index in _data(operator) and self._model.tensors[index].values is None:
                raise FrontendError(
                    f"{title} reads {self._model.tensors[index].name}, which nothing has computed; "
                    "check the download"
                )
        return operands

    def _bind(self, index: int, result: Result) -> None:
        """Bind a result under its name, through a Q/DQ pair where the file has integers."""
        tensor = self._model.tensors[index]
        if index in self._held or tensor.values is not None:
            raise ValueError(f"tensor {tensor.name} is computed twice")
        _refuse_wide(tensor)
        wrap = Image if isinstance(result, Image) else _same
        value = result.value if isinstance(result, Image) else result
        if isinstance(value, relax.Call):
            is_moved = index in self._model.outputs and (quantization_of(tensor) or wrap is Image)
            value = self._writer.emit(f"{tensor.name}/real" if is_moved else tensor.name, value)
        self._check_shape(tensor, value, wrap is Image)
        if quantization_of(tensor) is None:
            self._held[index] = Held.of(wrap(value))
            return
        q = self._writer.emit(f"{tensor.name}/q", quantize(value, tensor))
        real = self._writer.emit(f"{tensor.name}/dq", dequantize(q, tensor))
        self._held[index] = Held.of(wrap(real), wrap(q))

    def _check_shape(self, tensor: TfliteTensor, value: relax.Expr, is_image: bool) -> None:
        """Compare what was computed with what the file says of it."""
        result_shape = shape(value)
        if is_image:
            result_shape = (result_shape[0], *result_shape[2:], result_shape[1])
        if tensor.shape and result_shape != tensor.shape:
            batch = "" if self._batch is None else " with this batch: convert it with that"
            raise ValueError(
                f"its result is {list(result_shape)}; the file says {list(tensor.shape)}{batch}"
            )

    def _output(self, index: int) -> relax.Var:
        """Return a result of the model as the file has it: its order, its type, its name."""
        tensor, held = self._model.tensors[index], self._held.get(index)
        if held is None:
            raise FrontendError(f"output {tensor.name} is computed by nothing; check the download")
        value = held.plain
        if value is None:
            name = f"{tensor.name}/nhwc" if quantization_of(tensor) else tensor.name
            value = self._writer.emit(name, relax.op.permute_dims(held.image, TO_NHWC))
        if quantization_of(tensor):
            value = self._writer.emit(tensor.name, quantize(value, tensor))
        if not isinstance(value, relax.Var):
            raise FrontendError(f"output {tensor.name} is constant; check the conversion")
        return value


def _with_batch(model: TfliteModel, batch: int) -> TfliteModel:
    """Return a model whose computed tensors have the leading extents of another batch."""
    leading = {model.tensors[index].shape[:1] for index in model.inputs}
    if len(leading) != 1 or not (old := next(iter(leading))) or not old[0]:
        raise FrontendError(
            f"its inputs have leading extents {sorted(leading)}, no common batch to be {batch}; "
            "convert the model with that batch"
        )
    tensors = (
        replace(tensor, shape=(tensor.shape[0] * batch // old[0], *tensor.shape[1:]))
        if tensor.values is None and tensor.shape
        else tensor
        for tensor in model.tensors
    )
    return replace(model, tensors=tuple(tensors))


def _same(value: relax.Expr) -> Result:
    return value


def _data(operator: TfliteOperator) -> list[int]:
    """Return the tensors that an operator computes with; its settings are none of them."""
    settings = SETTINGS.get(operator.kind, ())
    return [
        index
        for position, index in enumerate(operator.inputs)
        if index >= 0 and position not in settings
    ]


def _refuse_unsupported(
    operators: Sequence[TfliteOperator], tensors: Sequence[TfliteTensor]
) -> None:
    missing: dict[str, list[str]] = {}
    for operator in operators:
        if operator.kind not in CONVERTERS:
            missing.setdefault(operator.kind, []).append(tensors[operator.outputs[0]].name)
    refuse_operators(missing, "convert the model without them, or cut it before them")


def _refuse_wide(tensor: TfliteTensor) -> None:
    """Refuse quantized tensors that no kernel takes."""
    quantization = tensor.quantization
    if quantization is None or tensor.dtype == "float32":
        return
    if tensor.dtype not in QUANTIZED:
        raise UnsupportedOpError(
            f"tensor {tensor.name} is quantized to {tensor.dtype}; activations of int8 and uint8 "
            "can be imported: convert the model with these"
        )
    if quantization.scale.size > 1:
        raise UnsupportedOpError(
            f"tensor {tensor.name} is an activation with {quantization.scale.size} scales; "
            "expected one"
        )
