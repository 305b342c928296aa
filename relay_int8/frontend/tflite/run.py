"""One run of a TFLite graph: its operators become Relax, one after the other.

    Before:  y = CONV_2D(x, w, b), all of them integers with scales
    After:   y = quantize(conv2d(dequantize(x), dequantize(w)) + dequantize(b));  ...

A quantized tensor is its quantize/dequantize pair, with the file's scale and zero point. Loops are
written out, and what a composite operator stands for is put in its place: both run other graphs
of the file. Of a branch by a computed condition both sides are computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from tvm import relax

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.branches import select_branch
from relay_int8.frontend.folding import folded
from relay_int8.frontend.importing import ImportWriter, converting
from relay_int8.frontend.tflite.converters import CONVERTERS, SETTINGS
from relay_int8.frontend.tflite.dilation import join_dilated
from relay_int8.frontend.tflite.model import TfliteGraph, TfliteModel, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.refusals import refuse_unsupported, refuse_wide
from relay_int8.frontend.tflite.schema import COMPLEX
from relay_int8.frontend.tflite.spectra import converted_by_parts
from relay_int8.frontend.tflite.step import TfliteStep
from relay_int8.frontend.tflite.tensors import (
    TO_NHWC,
    Held,
    Image,
    Parts,
    Result,
    dequantize,
    quantization_of,
    quantize,
)
from relay_int8.frontend.tflite.variables import ASSIGN, HANDLE, READ, handles
from relay_int8.graph.dataflow import constant, dtype, shape

LOOP, BRANCH, COMPOSITE = "WHILE", "IF", "STABLEHLO_COMPOSITE"
CONTROL = (LOOP, BRANCH, COMPOSITE)
"""Operators that run other graphs."""
VARIABLES = (READ, ASSIGN)
KINDS = (*CONVERTERS, *CONTROL, *VARIABLES)
LOOKUPS = {"EMBEDDING_LOOKUP": 1, "GATHER": 0, "GATHER_ND": 0}
"""Operators that read a table -> the place of the table among their operands."""
MOST_RUNS = 4096  # of graphs in graphs; the body of a loop becomes kernels of its own each time
MOST_DEPTH = 16  # graphs within graphs; more come from a damaged file


class GraphRun:
    """Run a graph of a file on tensors in Relax.

    Parameters
    ----------
    model, graph
        What the file holds, and which of its graphs is run.
    writer
        What is bound goes here.
    scaled
        Whether the batch is another than the file's.
    depth, runs
        How many graphs it stands in, and a count of the runs of these.
    variables
        What each variable that is read holds, by name; assignments change it.
    """

    def __init__(
        self,
        model: TfliteModel,
        graph: TfliteGraph,
        writer: ImportWriter,
        *,
        scaled: bool,
        depth: int = 0,
        runs: Iterator[int] | None = None,
        variables: dict[str, Held] | None = None,
    ) -> None:
        self._model, self._graph, self._writer = model, graph, writer
        self._scaled, self._depth = scaled, depth
        self._runs = count() if runs is None else runs
        self._held: dict[int, Held] = {}
        self._variables = {} if variables is None else variables
        self._handles = handles(graph)

    def results(self, operands: Sequence[Held]) -> list[Held]:
        """Return the results of the graph, of constants too."""
        if len(operands) != len(self._graph.inputs):
            raise ValueError(f"a graph of {len(self._graph.inputs)} inputs gets {len(operands)}")
        self._held = dict(zip(self._graph.inputs, operands, strict=True))
        operators = self._needed()
        refuse_unsupported(operators, self._graph.tensors, KINDS)
        for operator in operators:
            self._convert(operator)
        return [self._result(index) for index in self._graph.outputs]

    def _needed(self) -> list[TfliteOperator]:
        """Return the operators that the results depend on, in order."""
        wanted = set(self._graph.outputs)
        needed = []
        for operator in reversed(self._graph.operators):
            is_wanted = wanted.intersection(operator.outputs) or self._is_assignment(operator)
            if is_wanted and operator.kind != HANDLE:
                wanted.update(operator.inputs)
                needed.append(operator)
        return join_dilated(needed[::-1], self._graph)

    def _is_assignment(self, operator: TfliteOperator) -> bool:
        """Whether an operator changes a variable that is read."""
        return operator.kind == ASSIGN and self._handles[operator.inputs[0]] in self._variables

    def _use_variable(self, operator: TfliteOperator) -> None:
        """Read or assign a variable."""
        name = self._handles[operator.inputs[0]]
        if operator.kind == READ:
            self._held[operator.outputs[0]] = self._variables[name]
            return
        if self._depth:
            raise UnsupportedOpError(
                f"variable {name} is assigned in a loop or a branch; assign it in the model's "
                "own graph"
            )
        self._variables[name] = self._value(operator.inputs[1])

    def _convert(self, operator: TfliteOperator) -> None:
        """Bind the results of an operator."""
        if operator.kind in VARIABLES:
            self._use_variable(operator)
            return
        tensors = self._graph.tensors
        outputs = [tensors[index] for index in operator.outputs]
        title = f"{operator.kind} (its result: {outputs[0].name})"
        step = TfliteStep(
            operator=operator,
            inputs=[None if index < 0 else tensors[index] for index in operator.inputs],
            outputs=outputs,
            bind=self._emit,
            held=self._operands(operator, title),
            scaled=self._scaled,
        )
        with converting(title):
            if operator.kind in CONTROL:
                self._held.update(zip(operator.outputs, self._run(step), strict=True))
                return
            converted = converted_by_parts(CONVERTERS[operator.kind], step)
            if isinstance(converted, relax.Expr | Image | Parts):
                converted = [converted]
            results = list(converted)
            if len(results) != len(outputs):
                raise ValueError(f"it has {len(outputs)} results, not {len(results)}")
            for index, result in zip(operator.outputs, results, strict=True):
                self._bind(index, result, is_exact=self._is_table_read(step, index))

    def _is_table_read(self, step: TfliteStep, index: int) -> bool:
        """Whether a result is rows of a constant table that are only read as reals.

        They need no rounding: a float network whose weights alone are integers has such tables.
        """
        readers = {op.kind for op in self._graph.operators if index in op.inputs}
        place = LOOKUPS.get(step.operator.kind)
        if place is None or readers != {"DEQUANTIZE"} or index in self._graph.outputs:
            return False
        return step.known(place) is not None

    def _run(self, step: TfliteStep) -> list[Held]:
        """Return what other graphs make of the operands."""
        operands = [
            step.held.get(index) or Held(plain=step.plain(index))
            for index in range(len(step.inputs))
        ]
        kind = step.operator.kind
        if kind == COMPOSITE:
            return self._inside(step, "graph", operands)
        if kind == BRANCH:
            condition = operands.pop(0)
            if constant(self._plain(condition)) is None:
                return self._selected(step, condition, operands)
            chosen = _truth(condition, "a branch by a condition")
            return self._inside(step, "then" if chosen else "otherwise", operands)
        while True:
            (condition,) = self._inside(step, "condition", operands)
            if not _truth(condition, "a loop as long as a condition"):
                return operands
            operands = self._inside(step, "body", operands)

    def _selected(self, step: TfliteStep, condition: Held, operands: Sequence[Held]) -> list[Held]:
        """Return what a computed condition selects of the results of two graphs."""
        then, otherwise = (
            [self._plain(held) for held in self._inside(step, option, operands)]
            for option in ("then", "otherwise")
        )
        chosen = select_branch(
            lambda value: step.emit("condition", value), self._plain(condition), then, otherwise
        )
        for index, value in zip(step.operator.outputs, chosen, strict=True):
            self._bind(index, value)
        return [self._held[index] for index in step.operator.outputs]

    def _inside(self, step: TfliteStep, option: str, operands: Sequence[Held]) -> list[Held]:
        """Return the results of another graph, whose number an option is."""
        number = step.integer(option, 0)
        if number >= len(self._model.graphs) or self._depth >= MOST_DEPTH:
            raise ValueError(f"it runs graph {number}, {self._depth} graphs deep")
        if next(self._runs) >= MOST_RUNS:
            raise NotImplementedError(f"loops of more than {MOST_RUNS // 2} runs")
        run = GraphRun(
            self._model,
            self._model.graphs[number],
            self._writer,
            scaled=self._scaled,
            depth=self._depth + 1,
            runs=self._runs,
            variables=self._variables,
        )
        return run.results(operands)

    def _result(self, index: int) -> Held:
        """Return a result of the graph."""
        if self._depth or index in self._held:
            return self._value(index)
        name = self._graph.tensors[index].name
        raise FrontendError(f"output {name} is computed by nothing; check the download")

    def _value(self, index: int) -> Held:
        """Return a tensor that has been computed, or is a constant."""
        tensor, held = self._graph.tensors[index], self._held.get(index)
        if held is None and tensor.values is not None:
            step = TfliteStep(
                TfliteOperator("RETURN", (index,), (index,)), [tensor], [tensor], self._emit
            )
            held = Held(plain=step.plain(0))
        if held is None:
            raise FrontendError(f"tensor {tensor.name} is computed by nothing; check the download")
        return held

    def _plain(self, held: Held) -> relax.Expr:
        """Return a tensor in the order of the file."""
        if held.plain is None:
            held.plain = self._emit("nhwc", relax.op.permute_dims(held.image, TO_NHWC))
        return held.plain

    def _emit(self, name: str, value: relax.Expr) -> relax.Expr:
        """Bind a value; what is computed of constants alone is one."""
        known = folded(value)
        return self._writer.emit(name, value) if known is None else known

    def _operands(self, operator: TfliteOperator, title: str) -> dict[int, Held]:
        """Return the computed operands by their position; weights and settings are none."""
        operands = {}
        for position, index in enumerate(operator.inputs):
            if index in self._held:
                operands[position] = self._held[index]
            elif index not in _data(operator) or self._graph.tensors[index].values is not None:
                continue
            elif self._graph.tensors[index].is_state:
                raise UnsupportedOpError(
                    f"{title} reads {self._graph.tensors[index].name}, a state kept between runs; "
                    "make it an input and a result of the model"
                )
            else:
                raise FrontendError(
                    f"{title} reads {self._graph.tensors[index].name}, which nothing has computed; "
                    "check the download"
                )
        return operands

    def _bind(self, index: int, result: Result, *, is_exact: bool = False) -> None:
        """Bind a result under its name, through a Q/DQ pair where the file has integers."""
        tensor = self._graph.tensors[index]
        if index in self._held or tensor.values is not None:
            raise ValueError(f"tensor {tensor.name} is computed twice")
        refuse_wide(tensor)
        if isinstance(result, Parts):
            self._bind(index, result.real)
            imaginary = self._emit(f"{tensor.name}/imaginary", result.imaginary)
            self._held[index].imaginary = imaginary
            return
        wrap = Image if isinstance(result, Image) else _same
        value = result.value if isinstance(result, Image) else result
        if isinstance(value, relax.Call | relax.TupleGetItem):
            is_moved = index in self._graph.outputs and (quantization_of(tensor) or wrap is Image)
            value = self._emit(f"{tensor.name}/real" if is_moved else tensor.name, value)
        self._check_shape(tensor, value, wrap is Image)
        is_real = quantization_of(tensor) or tensor.dtype == COMPLEX
        expected = "float32" if is_real else tensor.dtype
        if dtype(value) != expected:
            raise ValueError(f"its result is {dtype(value)}; the file says {tensor.dtype}")
        if quantization_of(tensor) is None or is_exact:
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
        if not tensor.shape or constant(value) is not None:
            return
        axes = [axis for axis in range(len(tensor.shape)) if axis not in tensor.open_axes]
        alike = len(result_shape) == len(tensor.shape)
        if not alike or any(result_shape[axis] != tensor.shape[axis] for axis in axes):
            batch = " with this batch: convert it with that" if self._scaled else ""
            raise ValueError(
                f"its result is {list(result_shape)}; the file says {list(tensor.shape)}{batch}"
            )


def _same(value: relax.Expr) -> Result:
    return value


def _truth(held: Held, what: str) -> bool:
    """Return a condition that depends on no input of the model."""
    value = None if held.plain is None else constant(held.plain)
    if value is None or value.size != 1:
        raise NotImplementedError(f"{what} that is computed from the model's inputs")
    return bool(value.reshape(()))


def _data(operator: TfliteOperator) -> list[int]:
    """Return the tensors that an operator computes with; its settings are none of them."""
    settings = SETTINGS.get(operator.kind, ())
    return [
        index
        for position, index in enumerate(operator.inputs)
        if index >= 0 and position not in settings
    ]
