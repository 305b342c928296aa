"""Import what chooses or repeats: If, Loop and Scan, as if all they run stood in the graph itself.

    Before:  y = If(condition, then: f(x), else: g(x))      the condition is computed
    After:   y = where(condition, f(x), g(x))

A constant condition leaves one branch. Runs of a loop are written out, one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.branches import select_branch
from relay_int8.frontend.importing import (
    CONVERTER_ERRORS,
    SizedByValuesError,
    refuse_operators,
)
from relay_int8.frontend.onnx.counted.tensors import CountedTensors
from relay_int8.frontend.onnx.node_form import title_of
from relay_int8.frontend.onnx.operator_support import BRANCH, LOOP, SCAN, unsupported_nodes
from relay_int8.frontend.onnx.operators.scan import ScanForm
from relay_int8.frontend.onnx.operators.sequences import is_list
from relay_int8.graph.dataflow import constant

MOST_RUNS = 1024  # of a loop that is written out
UNBOUNDED = 2**31 - 1  # PyTorch writes a loop by its condition alone with the largest int64


class ControlFlow(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """What imports the nodes that hold graphs of their own."""

    _of_shapes: set[str]
    _counted: CountedTensors

    def _import_node(self, node: onnx.NodeProto) -> None:
        """Import a node of a branch or of a run."""
        raise NotImplementedError

    def _import_control_flow(self, node: onnx.NodeProto) -> bool:
        """Import a node if it is If, Loop or Scan; return whether it was."""
        control = {BRANCH: self._import_branch, LOOP: self._import_loop, SCAN: self._import_scan}
        if node.op_type not in control or node.domain:
            return False
        control[node.op_type](node)
        return True

    def _import_branch(self, node: onnx.NodeProto) -> None:
        """Import what a condition chooses; both branches, where it is computed."""
        title = f"node {title_of(node)} (If)"
        try:
            condition = self._nodes[node.input[0]]
            branches = {attribute.name: attribute.g for attribute in node.attribute}
            known = constant(condition)
            if known is None:
                then, otherwise = branches["then_branch"], branches["else_branch"]
                values = self._selected(title, condition, then, otherwise)
            else:
                branch = branches["then_branch" if known.reshape(-1)[0] else "else_branch"]
                values = self._branch(branch)
                of_shapes = zip(node.output, branch.output, strict=True)
                self._of_shapes |= {y for y, inner in of_shapes if inner.name in self._of_shapes}
            self._nodes.update(zip(node.output, values, strict=True))
        except CONVERTER_ERRORS as err:
            raise FrontendError(f"{title} has no whole branch: {err}") from err

    def _selected(
        self, title: str, condition: Any, then: onnx.GraphProto, otherwise: onnx.GraphProto
    ) -> list[Any]:
        """Import both branches; return their results as a computed condition selects them."""
        try:
            both = self._branch(then), self._branch(otherwise)
            if any(is_list(value) for values in both for value in values):
                raise NotImplementedError("a branch gives a list of tensors")
            self._counted.refuse(value for values in both for value in values)
            chosen = select_branch(self.bb.emit, condition, *both)
        except (NotImplementedError, UnsupportedOpError) as err:
            raise UnsupportedOpError(
                f"{title} chooses when the network runs, and both branches cannot be computed: "
                f"{err}; if an input alone chooses, give its value: "
                "ImportOptions(values={'NAME': NUMBER})"
            ) from err
        return [self.bb.emit(value) if isinstance(value, relax.Call) else value for value in chosen]

    def _branch(self, branch: onnx.GraphProto) -> list[Any]:
        """Import the nodes of a branch; return what its outputs are."""
        refuse_operators(unsupported_nodes(branch))
        self._parse_graph_initializers(branch)
        for inner in branch.node:
            self._import_node(inner)
        return [self._nodes[value.name] for value in branch.output]

    def _import_loop(self, node: onnx.NodeProto) -> None:
        """Import every run of a loop, one after the other, as if all stood in the graph."""
        title = f"node {title_of(node)} (Loop)"
        try:
            body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
            trips, condition, *carried = [self._nodes[i] if i else None for i in node.input]
            self._counted.refuse([trips, condition])
            count = UNBOUNDED if trips is None else self._known(trips, title)
            is_endless = count >= UNBOUNDED
            count = MOST_RUNS if is_endless else count
            goes = condition is None or bool(self._known(condition, title))
            refuse_operators(unsupported_nodes(body))
            self._parse_graph_initializers(body)
            stacked: list[list[relax.Expr]] = [[] for _ in body.output[1 + len(carried) :]]
            if count > MOST_RUNS:
                raise UnsupportedOpError(f"{title} runs {count} times; {MOST_RUNS} are the most")
            run = 0
            while goes and run < count:
                values = np.array(run, "int64"), np.array(True)
                given = [_as_declared(*each) for each in zip(body.input, values, strict=False)]
                given += carried
                going, *results = self._import_run(body, given)
                goes, run = bool(self._known(going, title)), run + 1
                self._counted.refuse(results[len(carried) :])
                for rows, value in zip(stacked, results[len(carried) :], strict=True):
                    rows.append(self.bb.emit(relax.op.expand_dims(value, 0)))
                carried = results[: len(carried)]
            if goes and is_endless:
                raise UnsupportedOpError(f"{title} runs more than {MOST_RUNS} times, or forever")
            if stacked and not run:
                raise UnsupportedOpError(f"{title} runs no time: its outputs are empty")
            carried += [self.bb.emit(relax.op.concat(rows, 0)) for rows in stacked]
            self._nodes.update((n, v) for n, v in zip(node.output, carried, strict=False) if n)
        except SizedByValuesError as err:
            raise UnsupportedOpError(f"{title} cannot be imported: {err}") from err
        except CONVERTER_ERRORS as err:
            raise FrontendError(f"{title} has no whole body: {err}") from err

    def _import_scan(self, node: onnx.NodeProto) -> None:
        """Import a loop over slices of tensors, every run of it."""
        title = f"node {title_of(node)} (Scan)"
        try:
            scan = ScanForm.of(node)
            operands = [self._nodes[name] for name in node.input]
            self._counted.refuse(operands)
            carried, scanned = operands[: -scan.count], operands[-scan.count :]
            count = scan.steps(scanned)
            if not 0 < count <= MOST_RUNS:
                raise UnsupportedOpError(f"{title} runs {count} times; 1 to {MOST_RUNS} are read")
            refuse_operators(unsupported_nodes(scan.body))
            self._parse_graph_initializers(scan.body)
            stacked: list[list[relax.Expr]] = [[] for _ in scan.body.output[len(carried) :]]
            for run in range(count):
                slices = scan.slices(self.bb, scanned, run, count)
                results = self._import_run(scan.body, [*carried, *slices])
                for rows, value in zip(stacked, results[len(carried) :], strict=True):
                    rows.append(value)
                carried = results[: len(carried)]
            carried += [scan.joined(self.bb, index, rows) for index, rows in enumerate(stacked)]
            self._nodes.update((n, v) for n, v in zip(node.output, carried, strict=True) if n)
        except SizedByValuesError as err:
            raise UnsupportedOpError(f"{title} cannot be imported: {err}") from err
        except CONVERTER_ERRORS as err:
            raise FrontendError(f"{title} has no whole body: {err}") from err

    def _import_run(self, body: onnx.GraphProto, given: list[Any]) -> list[Any]:
        """Import the nodes of one run of a loop; return what its outputs are."""
        self._nodes.update(zip((value.name for value in body.input), given, strict=True))
        for node in body.node:
            self._import_node(node)
        return [self._nodes[value.name] for value in body.output]

    @staticmethod
    def _known(value: Any, title: str) -> int:
        """Return a number that says how often a loop runs."""
        array = constant(value)
        if array is None:
            raise UnsupportedOpError(
                f"{title} runs as often as values of the input say; a network has a fixed number "
                "of steps: export it without the loop, or with fixed shapes"
            )
        return int(array.reshape(-1)[0])


def _as_declared(value: onnx.ValueInfoProto, number: np.ndarray) -> relax.Expr:
    """Return the number or the condition of a run; a body may have them as vectors of one."""
    dims = (1,) * len(value.type.tensor_type.shape.dim)
    return relax.const(number.reshape(dims), str(number.dtype))
