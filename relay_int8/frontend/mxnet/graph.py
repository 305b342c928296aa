"""From the nodes of an MXNet graph to Relax, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import IRModule, relax

from relay_int8.errors import FrontendError
from relay_int8.frontend.constant_results import keep_constant_results
from relay_int8.frontend.folding import folded
from relay_int8.frontend.importing import (
    ImportWriter,
    check_inputs,
    converting,
    float32_weight,
    refuse_operators,
)
from relay_int8.frontend.mxnet.attributes import Attributes
from relay_int8.frontend.mxnet.converters import CONVERTERS, REFUSED, WEIGHTED, data_inputs
from relay_int8.frontend.mxnet.step import MxnetStep
from relay_int8.frontend.mxnet.symbol import VARIABLE, Entry, Symbol, SymbolNode
from relay_int8.frontend.options import Shapes, shape_option
from relay_int8.graph.dataflow import operator
from relay_int8.notices import notice

Array = np.ndarray[Any, Any]


class MxnetImporter:
    """Imports one MXNet graph into Relax.

    Parameters
    ----------
    graph, weights
        What the two files hold.
    inputs, batch
        Shapes of data inputs, and their leading extent.
    """

    def __init__(
        self, graph: Symbol, weights: Mapping[str, Array], inputs: Shapes, batch: int | None
    ) -> None:
        self._nodes = graph.nodes
        self._heads = graph.heads
        self._weights = weights
        self._inputs = inputs
        self._batch = batch
        self._writer = ImportWriter()
        self._params: list[relax.Var] = []
        self._values: dict[Entry, relax.Expr] = {}
        self._constants: set[relax.Expr] = set()

    def run(self) -> IRModule:
        """Return the module."""
        needed = self._needed()
        self._refuse_unsupported(needed)
        self._check_variables(needed)
        for index in needed:
            node = self._nodes[index]
            values = [self._variable(node)] if node.op == VARIABLE else self._converted(node)
            self._values.update({(index, output): value for output, value in enumerate(values)})
        check_inputs(self._params)
        outputs = [self._output(entry) for entry in self._heads]
        return keep_constant_results(self._writer.finish(self._params, outputs))

    def _needed(self) -> list[int]:
        """Return the nodes that the results depend on, in order; labels are none of them."""
        needed = {index for index, _ in self._heads}
        for index in reversed(range(len(self._nodes))):
            if index in needed:
                needed.update(source for source, _ in data_inputs(self._nodes[index]))
        return sorted(needed)

    def _refuse_unsupported(self, needed: list[int]) -> None:
        missing: dict[str, list[str]] = {}
        reads: list[str] = []
        for node in (self._nodes[index] for index in needed):
            if node.op != VARIABLE and node.op not in CONVERTERS:
                missing.setdefault(node.op, []).append(node.name)
                sources = [self._nodes[source] for source, _ in node.inputs]
                reads += [source.name for source in sources if source.op != VARIABLE]
        refuse_operators(missing, reads=reads, reasons=REFUSED)

    def _check_variables(self, needed: list[int]) -> None:
        """Refuse weights that are missing, inputs without a shape, and shapes without an input."""
        variables = [self._nodes[i] for i in needed if self._nodes[i].op == VARIABLE]
        unknown = sorted(set(self._inputs) - {node.name for node in variables})
        if unknown:
            names = ", ".join(n.name for n in variables if n.name not in self._weights)
            raise FrontendError(
                f"the model has no input {', '.join(unknown)}; it has {names or 'weights alone'}"
            )
        operands = {
            source
            for index in needed
            for source, _ in data_inputs(self._nodes[index])[1:]
            if self._nodes[index].op in WEIGHTED
        }
        known = {*self._weights, *self._inputs}
        missing = [
            node.name
            for node in (self._nodes[index] for index in sorted(operands))
            if node.op == VARIABLE and node.name not in known
        ]
        if missing:
            raise FrontendError(
                f"{len(missing)} weights of the symbol are not in the parameters: "
                f"{', '.join(missing[:5])}{', ...' if missing[5:] else ''}; "
                "do the two files belong together?"
            )

    def _variable(self, node: SymbolNode) -> relax.Expr:
        if node.name in self._weights and node.name not in self._inputs:
            weight = relax.const(float32_weight(node.name, self._weights[node.name]))
            self._constants.add(weight)
            return weight
        if any(str(param.name) == node.name for param in self._params):
            raise FrontendError(f"two inputs of the model are called {node.name}")
        param = relax.Var(node.name, relax.TensorType(self._input_shape(node), "float32"))
        self._params.append(param)
        return param

    def _input_shape(self, node: SymbolNode) -> tuple[int, ...]:
        """Return the shape of an input: as given, or as the symbol holds it."""
        if node.name in self._inputs:
            input_shape = tuple(self._inputs[node.name])
        else:
            try:
                held = Attributes(node.attributes).integers("__shape__")
            except ValueError as err:
                raise FrontendError(f"input {node.name}: {err}") from err
            input_shape = tuple(extent or 0 for extent in held)
        if input_shape and self._batch is not None:
            input_shape = (self._batch, *input_shape[1:])
        if input_shape and input_shape[0] < 1 and min(input_shape[1:], default=1) > 0:
            notice(
                f"input {node.name} leaves its batch open; batch 1 is taken: pass "
                "ImportOptions(batch=N) for another"
            )
            input_shape = (1, *input_shape[1:])
        if not input_shape or min(input_shape) < 1:
            raise FrontendError(
                f"{node.name} is none of the parameters, and as an input its shape is open "
                f"({list(input_shape) or 'nothing'}); give "
                f"{shape_option(node.name, (1, 3, 224, 224))} with its own numbers"
            )
        return input_shape

    def _converted(self, node: SymbolNode) -> list[relax.Expr]:
        """Return the outputs of an operator."""
        operands = [self._operand(node, entry) for entry in data_inputs(node)]
        step = MxnetStep(
            inputs=operands,
            attributes=Attributes(node.attributes),
            emit=lambda name, value: self._bound(f"{node.name}/{name}", value),
        )
        with converting(node.title):
            result = CONVERTERS[node.op](step)
            values = list(result) if isinstance(result, list | tuple) else [result]
            bound = [
                self._bound(f"{node.name}_output{output}" if output else node.name, value)
                for output, value in enumerate(values)
            ]
        return bound

    def _bound(self, name: str, value: relax.Expr) -> relax.Expr:
        """Bind a call; what is computed of numbers alone, of shapes for instance, is one."""
        known = folded(value, self._constants)
        if known is None and operator(value) == "reshape":  # parts of the vector of an RNN
            known = folded(value)
            self._constants |= set() if known is None else {known}
        return self._writer.bound(name, value) if known is None else known

    def _operand(self, node: SymbolNode, entry: Entry) -> relax.Expr:
        if entry not in self._values:
            source = self._nodes[entry[0]]
            raise FrontendError(
                f"{node.title} reads output {entry[1]} of {source.title}, which is not computed "
                "in inference"
            )
        return self._values[entry]

    def _output(self, entry: Entry) -> relax.Var:
        node = self._nodes[entry[0]]
        value = self._operand(node, entry)
        return value if isinstance(value, relax.Var) else self._writer.emit(node.name, value)
