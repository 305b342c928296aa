"""From a TFLite model to Relax: its inputs, what its graph makes of them, its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import IRModule, relax

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.constant_results import keep_constant_results
from relay_int8.frontend.extents import Extent, fixed_batch, input_shapes
from relay_int8.frontend.importing import ImportWriter
from relay_int8.frontend.options import Shapes
from relay_int8.frontend.tflite.model import TfliteGraph, TfliteModel, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.refusals import refuse_wide
from relay_int8.frontend.tflite.run import GraphRun
from relay_int8.frontend.tflite.schema import COMPLEX
from relay_int8.frontend.tflite.step import TfliteStep
from relay_int8.frontend.tflite.tensors import (
    TO_NHWC,
    Held,
    dequantize,
    quantization_of,
    quantize,
)
from relay_int8.frontend.tflite.variables import READ, Variable, give_notice, variables_of
from relay_int8.graph.dataflow import dtype, shape


class TfliteImporter:
    """Imports a TFLite model into Relax.

    Parameters
    ----------
    model
        What the file holds.
    inputs
        Shapes of inputs of which the file leaves extents open.
    batch
        Leading extent of every input, in place of the file's.
    """

    def __init__(self, model: TfliteModel, inputs: Shapes, batch: int | None) -> None:
        graph = model.graphs[0]
        written = _written_shapes(graph)
        self._shapes = input_shapes(written, inputs, batch)
        self._batch = fixed_batch(written, self._shapes, batch)
        self._graph = graph if self._batch is None else _with_batch(graph, self._batch)
        self._model = model
        variables = variables_of(replace(model, graphs=(self._graph, *model.graphs[1:])))
        self._states = [variable for variable in variables if variable.is_assigned]
        self._constants = [variable for variable in variables if not variable.is_assigned]
        self._writer = ImportWriter()

    def run(self) -> IRModule:
        """Return the module."""
        tensors = self._graph.tensors
        inputs = [self._input(tensors[index]) for index in self._graph.inputs]
        states = {state.name: self._state(state) for state in self._states}
        values = {name: held for name, (_, held) in states.items()}
        values.update((constant.name, self._constant(constant)) for constant in self._constants)
        whole = GraphRun(
            self._model,
            self._graph,
            self._writer,
            scaled=self._batch is not None,
            variables=values,
        )
        results = whole.results([held for _, held in inputs])
        outputs = [
            self._output(tensors[index], held)
            for index, held in zip(self._graph.outputs, results, strict=True)
        ]
        outputs += [self._next(state, values[state.name]) for state in self._states]
        give_notice(self._states)
        params = [param for param, _ in (*inputs, *states.values())]
        return keep_constant_results(self._writer.finish(params, outputs))

    def _input(self, tensor: TfliteTensor) -> tuple[relax.Var, Held]:
        """Return a parameter, and the real numbers that it stands for."""
        refuse_wide(tensor)
        if tensor.is_state:
            raise UnsupportedOpError(f"input {tensor.name} is a state kept between runs")
        if tensor.dtype == COMPLEX:
            raise UnsupportedOpError(f"input {tensor.name} is complex; networks take reals")
        if tensor.values is not None:
            raise FrontendError(f"input {tensor.name} is a constant; check the download")
        return self._parameter(tensor, self._shapes[tensor.name])

    def _parameter(self, tensor: TfliteTensor, dims: Sequence[int]) -> tuple[relax.Var, Held]:
        param = relax.Var(tensor.name, relax.TensorType(dims, tensor.dtype))
        if quantization_of(tensor) is None:
            return param, Held(plain=param)
        real = self._writer.emit(f"{tensor.name}/dq", dequantize(param, tensor))
        return param, Held(plain=real, integers=param)

    def _state(self, variable: Variable) -> tuple[relax.Var, Held]:
        """Return the parameter of a variable, and the real numbers that it stands for."""
        if variable.name in self._shapes:
            raise FrontendError(f"an input and a variable are both called {variable.name}")
        refuse_wide(variable.tensor)
        return self._parameter(replace(variable.tensor, name=variable.name), variable.tensor.shape)

    def _constant(self, variable: Variable) -> Held:
        """Return a variable that keeps its first value."""
        if variable.first is None:
            raise FrontendError(f"variable {variable.name} has no values; check the download")
        tensor = replace(variable.tensor, name=variable.name, values=variable.first)
        step = TfliteStep(TfliteOperator(READ, (0,), (0,)), [tensor], [tensor], self._writer.emit)
        return Held(plain=step.plain(0))

    def _next(self, variable: Variable, held: Held) -> relax.Var:
        """Return a variable after the run, a result of its own."""
        var = self._output(replace(variable.tensor, name=variable.result), held)
        if shape(var) != variable.tensor.shape or dtype(var) != variable.tensor.dtype:
            raise UnsupportedOpError(
                f"variable {variable.name} is read as {list(variable.tensor.shape)} "
                f"{variable.tensor.dtype} and assigned as {list(shape(var))} {dtype(var)}; "
                "expected one shape and type"
            )
        if var.name == variable.result:
            return var
        return self._writer.emit(variable.result, relax.op.reshape(var, shape(var)))

    def _output(self, tensor: TfliteTensor, held: Held) -> relax.Var:
        """Return a result of the model as the file has it: its order, its type, its name."""
        if tensor.dtype == COMPLEX:
            raise UnsupportedOpError(f"output {tensor.name} is complex; networks give reals")
        value = held.plain
        if value is None:
            name = f"{tensor.name}/nhwc" if quantization_of(tensor) else tensor.name
            value = self._writer.emit(name, relax.op.permute_dims(held.image, TO_NHWC))
        if quantization_of(tensor):
            value = self._writer.emit(tensor.name, quantize(value, tensor))
        return value if isinstance(value, relax.Var) else self._writer.emit(tensor.name, value)


def _with_batch(graph: TfliteGraph, batch: int) -> TfliteGraph:
    """Return a graph whose computed tensors have the leading extents of another batch."""
    leading = {graph.tensors[index].shape[:1] for index in graph.inputs}
    if len(leading) != 1 or not (old := next(iter(leading))) or not old[0]:
        raise FrontendError(
            f"its inputs have leading extents {sorted(leading)}, no common batch to be {batch}; "
            "convert the model with that batch"
        )
    tensors = (
        replace(tensor, shape=(tensor.shape[0] * batch // old[0], *tensor.shape[1:]))
        if tensor.values is None and tensor.shape
        else tensor
        for tensor in graph.tensors
    )
    return replace(graph, tensors=tuple(tensors))


def _written_shapes(graph: TfliteGraph) -> dict[str, list[Extent]]:
    """Return the extents of every input as the file has them; its batch is what the file runs."""
    written: dict[str, list[Extent]] = {}
    for tensor in (graph.tensors[index] for index in graph.inputs):
        if tensor.name in written:
            raise FrontendError(f"two inputs of the model are called {tensor.name}")
        written[tensor.name] = [
            None if axis and axis in tensor.open_axes else extent
            for axis, extent in enumerate(tensor.shape)
        ]
    return written
