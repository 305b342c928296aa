"""From the nodes of an exported PyTorch program to Relax, one after the other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from tvm import IRModule, relax

from relay_int8.errors import FrontendError
from relay_int8.frontend.constant_results import keep_constant_results
from relay_int8.frontend.extents import fixed_batch, input_shapes
from relay_int8.frontend.folding import folded
from relay_int8.frontend.importing import (
    Array,
    ImportWriter,
    check_inputs,
    converting,
    float32_weight,
    refuse_operators,
)
from relay_int8.frontend.options import Shapes
from relay_int8.frontend.overwriting import overwritten
from relay_int8.frontend.sharing import share_equal
from relay_int8.frontend.torch.complex_numbers import COMPLEX_ONLY, convert
from relay_int8.frontend.torch.converters import CHECKS, CONVERTERS
from relay_int8.frontend.torch.mask_indices import written_by_masks
from relay_int8.frontend.torch.memory import TensorAliases, reads
from relay_int8.frontend.torch.program import Program, ProgramNode, Ref
from relay_int8.frontend.torch.refused import advice, reasons
from relay_int8.frontend.torch.step import ComplexTensor, TorchStep
from relay_int8.graph.dataflow import constant, shape
from relay_int8.notices import notice

Value = relax.Expr | ComplexTensor | int | float
INPUT_TYPES = ("float32", "uint8", "int8", "int32", "int64")


class TorchImporter:
    """Imports one PyTorch program into Relax.

    Parameters
    ----------
    program
        What the file holds.
    batch
        Leading extent of every input, in place of the file's.
    inputs
        Name -> shape, where the file leaves it open.
    """

    def __init__(self, program: Program, batch: int | None, inputs: Shapes) -> None:
        self._program = replace(program, nodes=written_by_masks(program))
        written = {name: extents for name, (_, extents) in program.inputs.items()}
        self._shapes = input_shapes(written, inputs, batch)
        self._batch = fixed_batch(written, self._shapes, batch)
        self._writer = ImportWriter()
        self._values: dict[str, Any] = {}
        self._read: set[str] = set()
        self._memory = TensorAliases()
        self._weights: set[relax.Expr] = set()
        self._changed = dict.fromkeys(program.changed)  # buffers, in the order of their changes
        self._written = dict.fromkeys(program.overwritten)  # inputs, in the same order

    def run(self) -> IRModule:
        """Return the module."""
        needed = self._needed()
        self._refuse_unsupported(needed)
        params = [self._input(name) for name in self._program.inputs]
        check_inputs(params)
        for node in needed:
            self._convert(node)
        if self._changed:
            notice(
                f"the model changes {', '.join(self._changed)} as it runs, which is not kept: each "
                "run begins with what the file holds; give it as an input and an output to keep it"
            )
        if self._written:
            notice(
                f"the model writes over its input {', '.join(self._written)}, and a network leaves "
                "its inputs as they are; return it from the model to have what it becomes"
            )
        mod = self._writer.finish(params, self._outputs())
        return keep_constant_results(share_equal(relax.transform.DeadCodeElimination()(mod)))

    def _needed(self) -> list[ProgramNode]:
        """Return the nodes that the results depend on, in order; those in place always count."""
        needed, nodes = set(self._program.outputs), []
        for node in reversed(self._program.nodes):
            if node.operator not in CHECKS and (node.changes or needed.intersection(node.outputs)):
                needed.update(reads(node), node.outputs if node.changes else ())
                nodes.append(node)
        self._read = needed
        return nodes[::-1]

    def _refuse_unsupported(self, nodes: Iterable[ProgramNode]) -> None:
        missing: dict[str, list[str]] = {}
        for node in nodes:
            if node.operator not in CONVERTERS and node.operator not in COMPLEX_ONLY:
                missing.setdefault(node.operator, []).append(node.name)
        refuse_operators(missing, advice=advice(missing), reasons=reasons(missing))

    def _input(self, name: str) -> relax.Var:
        kind, _ = self._program.inputs[name]
        kind = "float32" if kind in ("float16", "bfloat16", "float64") else kind
        if kind not in INPUT_TYPES:
            raise FrontendError(f"input {name} has {kind}; expected {', '.join(INPUT_TYPES)}")
        var = relax.Var(name, relax.TensorType(self._shapes[name], kind))
        self._values[name] = var
        return var

    def _convert(self, node: ProgramNode) -> None:
        """Bind the results of a node to their names."""
        self._read_anew(reads(node), node.title)
        title = _bound_name(node)
        with converting(node.title, self._wish()):
            values = self._call(node, title, {})
            for output, (name, value) in enumerate(zip(node.outputs, values, strict=False)):
                if name not in self._read:
                    continue
                bound = self._bound(f"{title}_output{output}" if output else title, value)
                self._check_sizes(name, bound)
                self._values[name] = bound
            self._follow_change(node)

    def _call(self, node: ProgramNode, title: str, other: Mapping[str, relax.Expr]) -> list[Value]:
        """Return the results of a node; operands named in ``other`` are replaced."""
        given = {key: self._argument(node, a, other) for key, a in node.arguments.items()}
        step = TorchStep(
            arguments=given,
            emit=partial(self._emit, title),
            operator=node.operator,
        )
        result = convert(step)
        return list(result) if isinstance(result, list | tuple) else [result]

    def _bound(self, name: str, value: Value) -> Value:
        """Bind a call to a variable; one of constants that are no weights becomes a constant."""
        if isinstance(value, int | float):
            return value
        if isinstance(value, ComplexTensor):
            real = self._bound(f"{name}/real", value.real)
            return ComplexTensor(real, self._bound(f"{name}/imaginary", value.imaginary))
        known = folded(value, self._weights)
        return self._writer.bound(name, value) if known is None else known

    def _emit(self, title: str, name: str, value: relax.Expr) -> relax.Expr:
        return self._bound(f"{title}/{name}", value)

    def _wish(self) -> str:
        return "" if self._batch is None else f" with batch {self._batch}"

    def _follow_change(self, node: ProgramNode) -> None:
        """Let readers of an operand that was overwritten, or of a whole it is of, see that."""
        if not node.changes:
            self._memory.join(node)
            return
        operands, result = reads(node), [v for v in node.outputs[:1] if v in self._values]
        if not operands or not result:
            raise FrontendError(f"{node.title} changes an operand in place that it does not have")
        self._values[operands[0]] = self._values[result[0]]
        whole = self._memory.first(operands[0])
        if whole in self._program.buffers:
            self._changed.setdefault(self._program.buffers[whole])
        if whole in self._program.inputs:
            self._written.setdefault(whole)
        for part, source, whole in self._memory.change(node):
            value, old = self._values[part], self._values[whole]
            title = f"{_bound_name(node)}/{whole}"
            if not source.changes:
                sizes = shape(old.real if isinstance(old, ComplexTensor) else old)
                counted = relax.const(np.arange(math.prod(sizes)).reshape(sizes), "int64")
                positions = constant(self._part(source, part, whole, counted))
                assert positions is not None
                value = self._overwritten(title, old, positions, value)
            self._values[whole] = self._bound(title, value)

    def _overwritten(self, title: str, old: Value, positions: Array, value: Value) -> Value:
        """Write a value, real or complex, at positions of a whole."""
        if isinstance(value, ComplexTensor) != isinstance(old, ComplexTensor):
            raise NotImplementedError("it changes a part of complex numbers in place")
        if not isinstance(value, ComplexTensor):
            return overwritten(partial(self._emit, title), old, positions, value)
        parts = (
            self._overwritten(f"{title}/{key}", getattr(old, key), positions, getattr(value, key))
            for key in ("real", "imaginary")
        )
        return ComplexTensor(*parts)

    def _part(self, source: ProgramNode, part: str, whole: str, value: relax.Expr) -> relax.Expr:
        """Return what a view of ``whole`` is where that is ``value``."""
        if source.changes:
            return value
        title = f"{_bound_name(source)}/anew"
        value_of_part = self._call(source, title, {whole: value})[source.outputs.index(part)]
        return self._bound(title, value_of_part)

    def _read_anew(self, names: Iterable[str], reader: str) -> None:
        """Read the views among names again whose memory has changed."""
        for name in self._memory.outdated(names, reader):
            source, whole = self._memory.sources[name]
            with converting(source.title, self._wish()):
                self._values[name] = self._part(source, name, whole, self._values[whole])

    def _argument(self, node: ProgramNode, given: Any, other: Mapping[str, relax.Expr]) -> Any:
        if isinstance(given, list):
            return [self._argument(node, entry, other) for entry in given]
        if not isinstance(given, Ref):
            return given
        return other[given.name] if given.name in other else self._value(node.title, given.name)

    def _value(self, reader: str, name: str) -> Any:
        if name not in self._values:
            if name not in self._program.tensors:
                raise FrontendError(f"{reader} reads {name}, which nothing computes")
            array = self._program.tensors[name]
            if array.dtype.kind == "c":
                parts = (self._constant(name, part) for part in (array.real, array.imag))
                self._values[name] = ComplexTensor(*parts)
            else:
                self._values[name] = self._constant(name, array)
        return self._values[name]

    def _constant(self, name: str, array: Array) -> relax.Constant:
        """Return a tensor of the file; what is trained is a weight."""
        array = float32_weight(name, array)
        value = relax.const(array, str(array.dtype))
        if name in self._program.weights:
            self._weights.add(value)
        return value

    def _check_sizes(self, name: str, value: Value) -> None:
        """Refuse a result of another shape than torch found; another batch may change axis 0."""
        expected = self._program.sizes.get(name)
        if expected is None or isinstance(value, int | float):
            return
        result_shape = shape(value.real if isinstance(value, ComplexTensor) else value)
        start = 0 if self._batch is None else 1
        pairs = list(zip(result_shape, expected, strict=False))[start:]
        if len(result_shape) != len(expected) or any(
            isinstance(e, int) and e != f for f, e in pairs
        ):
            raise ValueError(
                f"its result would be {list(result_shape)}, and is {list(expected)} in torch"
            )

    def _outputs(self) -> list[relax.Var]:
        """Return the results; what a program returns again is a tensor with a name of its own."""
        latest: dict[relax.Var, relax.Var] = {}
        outputs = []
        for position, name in enumerate(self._program.outputs):
            value = self._output(name)
            again = latest.get(value)
            if again is not None:
                copy = relax.op.reshape(again, shape(again))
                latest[value] = self._writer.emit(f"{value.name}_output{position}", copy)
            outputs.append(latest.setdefault(value, value))
        return outputs

    def _output(self, name: str) -> relax.Var:
        self._read_anew([name], "the program")
        value = self._value("the program's output", name)
        if isinstance(value, int | float):
            raise FrontendError(f"output {name} is no tensor")
        if isinstance(value, ComplexTensor):
            raise FrontendError(
                f"output {name} has complex numbers: let the model return torch.view_as_real of it"
            )
        self._check_batch(name, shape(value))
        return value if isinstance(value, relax.Var) else self._writer.emit(name, value)

    def _check_batch(self, name: str, result_shape: tuple[int, ...]) -> None:
        """Refuse a batch that shapes written into the graph did not follow."""
        written = {sizes[0] for _, sizes in self._program.inputs.values() if sizes}
        expected = self._program.sizes.get(name, ())[:1]
        if (
            self._batch is not None
            and written.intersection(expected)
            and result_shape[0] != self._batch
        ):
            raise FrontendError(
                f"shapes inside the model are written for batch {expected[0]}: with batch "
                f"{self._batch} its output {name} would be {list(result_shape)}; export it with "
                "that batch, or with an open one"
            )


def _bound_name(node: ProgramNode) -> str:
    """Return the name of a result: of the module, and the node in a module of several."""
    return node.path if node.leaf else f"{node.path}/{node.name}" if node.path else node.name
