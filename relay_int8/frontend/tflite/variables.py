"""Variables of a TFLite model: each is one more input and one more result of the network.

    Before:  CALL_ONCE(first values); s = READ_VARIABLE(v); ...; ASSIGN_VARIABLE(v, t)
    After:   main(x, v) -> y, v/next, with s = v and v/next = t

A network has no memory: whoever runs it hands each result on to the next run. A variable that
nothing assigns but its first value is a constant; one that nothing reads is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.tflite.model import TfliteGraph, TfliteModel, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.tables import Array
from relay_int8.frontend.tflite.tensors import have_one_scale
from relay_int8.notices import notice

FIRST, HANDLE, READ, ASSIGN = "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"
NEXT = "next"
MOST_NAMED = 4  # variables in a notice


@dataclass(frozen=True)
class Variable:
    """A variable that the model reads.

    Parameters
    ----------
    name
        As the file has it, shared by its handles.
    tensor
        What reading it gives: shape, type, scale.
    first
        Its elements before the first run, or None where the file has none.
    is_assigned
        Whether a run changes it.
    """

    name: str
    tensor: TfliteTensor
    first: Array | None
    is_assigned: bool

    @property
    def result(self) -> str:
        """Return the name of what a run makes of it."""
        return f"{self.name}/{NEXT}"


def variables_of(model: TfliteModel) -> list[Variable]:
    """Return the variables that the graphs of a model read, in the order of their reads."""
    begins = {
        int(operator.options["first"])  # type: ignore[arg-type]
        for graph in model.graphs
        for operator in graph.operators
        if operator.kind == FIRST
    }
    inside = [graph for i, graph in enumerate(model.graphs) if i not in begins]
    first: dict[str, Array | None] = {}
    for i in sorted(begins & set(range(len(model.graphs)))):
        for name, operator in _on_variables(model.graphs[i], ASSIGN):
            first[name] = model.graphs[i].tensors[operator.inputs[1]].values
    assigned = {
        name: graph.tensors[operator.inputs[1]]
        for graph in inside
        for name, operator in _on_variables(graph, ASSIGN)
    }
    variables: dict[str, Variable] = {}
    for graph in inside:
        for name, operator in _on_variables(graph, READ):
            tensor = graph.tensors[operator.outputs[0]]
            if not have_one_scale(tensor, assigned.get(name, tensor)):
                raise UnsupportedOpError(
                    f"variable {name} is read with one scale and assigned with another"
                )
            variables.setdefault(
                name, Variable(name, tensor, _fitting(first.get(name), tensor), name in assigned)
            )
    return list(variables.values())


def handles(graph: TfliteGraph) -> dict[int, str]:
    """Return the names of variables by the tensors that are their handles in a graph."""
    return {
        operator.outputs[0]: "/".join(
            str(operator.options[part])
            for part in ("container", "shared_name")
            if operator.options[part]
        )
        for operator in graph.operators
        if operator.kind == HANDLE and operator.outputs
    }


def give_notice(variables: Sequence[Variable]) -> None:
    """Say that a model has variables, and what they are before the first run."""
    states = [variable for variable in variables if variable.is_assigned]
    if not states:
        return
    named = ", ".join(f"{state.name} ({_first_text(state.first)})" for state in states[:MOST_NAMED])
    more = f" and {len(states) - MOST_NAMED} more" if len(states) > MOST_NAMED else ""
    notice(
        f"the model keeps {len(states)} variables between runs, which are inputs and results here: "
        f"give each result NAME/{NEXT} to the next run as its input NAME; before the first run the "
        f"file has {named}{more}"
    )


def _on_variables(graph: TfliteGraph, kind: str) -> Iterator[tuple[str, TfliteOperator]]:
    """Yield the operators of one kind in a graph, with the variable that each reads or assigns."""
    names = handles(graph)
    for operator in graph.operators:
        if operator.kind != kind:
            continue
        if not operator.inputs or operator.inputs[0] not in names:
            raise UnsupportedOpError(
                f"{kind} of a variable that another graph hands over; only variables that a graph "
                "names itself can be imported"
            )
        yield names[operator.inputs[0]], operator


def _fitting(first: Array | None, tensor: TfliteTensor) -> Array | None:
    """Return first values in the shape of a variable, if they have it but for the batch."""
    if first is None or first.dtype != tensor.dtype or first.shape[1:] != tensor.shape[1:]:
        return None
    return first


def _first_text(first: Array | None) -> str:
    if first is None:
        return "no values"
    return str(first.flat[0]) if (first == first.flat[0]).all() else "values that differ"
