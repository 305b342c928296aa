"""From the nodes of an exported PyTorch program to Relax, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import IRModule, relax

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.importing import (
    ImportWriter,
    check_inputs,
    converting,
    finite_weight,
    refuse_operators,
)
from relay_int8.frontend.torch.converters import CHECKS, CONVERTERS, VIEWS
from relay_int8.frontend.torch.program import Node, Program, Ref
from relay_int8.frontend.torch.step import Step
from relay_int8.graph.dataflow import shape

Value = relax.Expr | int
INPUT_TYPES = ("float32", "uint8", "int8", "int32", "int64")


class GraphImporter:
    """One program on its way into Relax.

    Parameters
    ----------
    program
        What the file holds.
    batch
        Leading extent of every input, in place of the file's.
    """

    def __init__(self, program: Program, batch: int | None) -> None:
        self._program = program
        self._batch = batch
        self._writer = ImportWriter()
        self._values: dict[str, Value] = {}
        self._families = _Families()

    def run(self) -> IRModule:
        """Return the module."""
        needed = self._needed()
        self._refuse_unsupported(needed)
        params = [self._input(name) for name in self._program.inputs]
        check_inputs(params)
        for node in needed:
            self._convert(node)
        return self._writer.finish(params, [self._output(name) for name in self._program.outputs])

    def _needed(self) -> list[Node]:
        """Return the nodes that the results depend on, in order; those in place always count."""
        needed, found = set(self._program.outputs), []
        for node in reversed(self._program.nodes):
            if node.operator not in CHECKS and (node.changes or needed.intersection(node.outputs)):
                needed.update(_reads(node))
                found.append(node)
        return found[::-1]

    def _refuse_unsupported(self, nodes: Iterable[Node]) -> None:
        missing: dict[str, list[str]] = {}
        for node in nodes:
            if node.operator not in CONVERTERS:
                missing.setdefault(node.operator, []).append(node.name)
        refuse_operators(
            missing,
            "program.run_decompositions() before torch.export.save writes many operators in "
            "simpler ones; or export the model without them",
        )

    def _input(self, name: str) -> relax.Var:
        kind, sizes = self._program.inputs[name]
        kind = "float32" if kind in ("float16", "bfloat16", "float64") else kind
        if kind not in INPUT_TYPES:
            raise FrontendError(f"input {name} has {kind}; expected {', '.join(INPUT_TYPES)}")
        dims = list(sizes)
        if dims and self._batch is not None:
            dims[0] = self._batch
        for axis, extent in enumerate(dims):
            if extent is None:
                raise FrontendError(
                    f"input {name} leaves its batch open; pass --batch N"
                    if axis == 0
                    else f"input {name} leaves dimension {axis} open; only the batch may be open: "
                    "export the model with a fixed size"
                )
            if not 0 < extent < 2**31:
                raise FrontendError(f"input {name} is {dims}; extents are at least 1")
        var = relax.Var(name, relax.TensorType(dims, kind))
        self._values[name] = var
        return var

    def _convert(self, node: Node) -> None:
        """Bind the results of a node to their names."""
        self._families.refuse_stale(node)
        title = _bound_name(node)
        batch = "" if self._batch is None else f" with batch {self._batch}"
        with converting(node.title, batch):
            step = Step(
                arguments={key: self._argument(node, a) for key, a in node.arguments.items()},
                emit=lambda name, value: self._writer.emit(f"{title}/{name}", value),
                operator=node.operator,
            )
            found = CONVERTERS[node.operator](step)
            values: list[Value] = list(found) if isinstance(found, list | tuple) else [found]
            for place, (name, value) in enumerate(zip(node.outputs, values, strict=False)):
                bound = self._writer.bound(f"{title}_output{place}" if place else title, value)
                self._check_sizes(name, bound)
                self._values[name] = bound
        self._follow_change(node)

    def _follow_change(self, node: Node) -> None:
        """Let readers of an operand that was overwritten see its new value."""
        self._families.join(node)
        if not node.changes:
            return
        reads, result = _reads(node), [v for v in node.outputs[:1] if v in self._values]
        if not reads or not result:
            raise FrontendError(f"{node.title} changes an operand in place that it does not have")
        self._values[reads[0]] = self._values[result[0]]

    def _argument(self, node: Node, given: Any) -> Any:
        if isinstance(given, list):
            return [self._argument(node, entry) for entry in given]
        return self._value(node.title, given.name) if isinstance(given, Ref) else given

    def _value(self, reader: str, name: str) -> Any:
        if name not in self._values:
            if name not in self._program.tensors:
                raise FrontendError(f"{reader} reads {name}, which nothing computes")
            self._values[name] = relax.const(finite_weight(name, self._program.tensors[name]))
        return self._values[name]

    def _check_sizes(self, name: str, value: Value) -> None:
        """Refuse a result of another shape than torch found; another batch may change axis 0."""
        expected = self._program.sizes.get(name)
        if expected is None or isinstance(value, int):
            return
        found = shape(value)
        start = 0 if self._batch is None else 1
        pairs = list(zip(found, expected, strict=False))[start:]
        if len(found) != len(expected) or any(e not in (None, f) for f, e in pairs):
            raise ValueError(f"its result would be {list(found)}, and is {list(expected)} in torch")

    def _output(self, name: str) -> relax.Var:
        value = self._value("the program's output", name)
        if isinstance(value, int):
            raise FrontendError(f"output {name} is no tensor")
        self._check_batch(name, shape(value))
        return value if isinstance(value, relax.Var) else self._writer.emit(name, value)

    def _check_batch(self, name: str, found: tuple[int, ...]) -> None:
        """Refuse a batch that shapes written into the graph did not follow."""
        written = {sizes[0] for _, sizes in self._program.inputs.values() if sizes}
        expected = self._program.sizes.get(name, ())[:1]
        if self._batch is not None and written.intersection(expected) and found[0] != self._batch:
            raise FrontendError(
                f"shapes inside the model are written for batch {expected[0]}: with batch "
                f"{self._batch} its output {name} would be {list(found)}; export it with that "
                "batch, or with an open one"
            )


class _Families:
    """Names of one memory: a change in place through one of them outdates the others."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}
        self._stale: set[str] = set()

    def join(self, node: Node) -> None:
        """Follow a node whose results lie in the memory of its first operand, or may do so."""
        sources = _reads(node)
        if not sources or not (node.changes or node.operator in VIEWS):
            return
        family = self._members.setdefault(sources[0], {sources[0]})
        if node.changes:
            self._stale |= family - {sources[0]}
        for name in node.outputs:
            self._members[name] = family
        family.update(node.outputs)

    def refuse_stale(self, node: Node) -> None:
        """Raise UnsupportedOpError if a node reads what was changed under another name."""
        stale = self._stale.intersection(_reads(node))
        if stale:
            raise UnsupportedOpError(
                f"{node.title} reads {', '.join(sorted(stale))}, changed in place as a part of "
                "another tensor; program.run_decompositions({}) before torch.export.save writes "
                "the model without changes in place"
            )


def _reads(node: Node) -> list[str]:
    """Return the names that a node reads, in the order of its arguments."""
    given = [a for value in node.arguments.values() for a in
             (value if isinstance(value, list) else [value])]  # fmt: skip
    return [entry.name for entry in given if isinstance(entry, Ref)]


def _bound_name(node: Node) -> str:
    """Return the name of a result: of the module, and the node in a module of several."""
    return node.path if node.leaf else f"{node.path}/{node.name}" if node.path else node.name
