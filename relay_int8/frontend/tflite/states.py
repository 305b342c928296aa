"""States that operators keep between runs, as variables.

    Before:  y = SVDF(x, ..., s), where s is a state, zero before the first run
    After:   CALL_ONCE(v = 0); s = READ_VARIABLE(v); y, t = SVDF(x, ..., s); ASSIGN_VARIABLE(v, t)

So are the states of an LSTM of a single step, which belongs to a stream. A state is a float here,
also where the file has integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relay_int8.frontend.tflite.model import TfliteGraph, TfliteModel, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.variables import ASSIGN, FIRST, HANDLE, READ

STATEFUL = {"SVDF": (4,), "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19)}
"""Operator -> the places of its states among its operands."""


def with_variables(model: TfliteModel) -> TfliteModel:
    """Return a model whose first graph has variables in place of operators' states."""
    graph = model.graphs[0]
    tensors = list(graph.tensors)
    handles: list[TfliteOperator] = []
    operators: list[TfliteOperator] = []
    first = TfliteGraph((), (), (), ())
    for operator in graph.operators:
        before: list[TfliteOperator] = []
        after: list[TfliteOperator] = []
        results: list[int] = []
        for state in _states(graph, operator):
            tensors[state] = replace(
                tensors[state], dtype="float32", quantization=None, is_state=False
            )
            handle, result = len(tensors), len(tensors) + 1
            name = tensors[state].name
            tensors += [_handle(name), replace(tensors[state], name=f"{name}/new")]
            handles.append(_with_handle(name, handle))
            before.append(TfliteOperator(READ, (handle,), (state,)))
            after.append(TfliteOperator(ASSIGN, (handle, result), ()))
            results.append(result)
            first = _with_first(first, tensors[state])
        changed = replace(operator, outputs=(*operator.outputs, *results))
        operators += [*before, changed, *after]
    if not handles:
        return model
    once = TfliteOperator(FIRST, (), (), {"first": len(model.graphs)})
    graph = replace(graph, tensors=tuple(tensors), operators=(once, *handles, *operators))
    return TfliteModel((graph, *model.graphs[1:], first))


def _states(graph: TfliteGraph, operator: TfliteOperator) -> list[int]:
    """Return the states that an operator keeps from run to run."""
    places = STATEFUL.get(operator.kind, ())
    indices = [operator.inputs[place] for place in places if place < len(operator.inputs)]
    are_states = [index >= 0 and graph.tensors[index].is_state for index in indices]
    if not indices or not all(are_states) or _steps(graph, operator) > 1:
        return []
    return indices


def _steps(graph: TfliteGraph, operator: TfliteOperator) -> int:
    """Return how many steps a run of an operator has; a longer sequence begins anew."""
    dims = graph.tensors[operator.inputs[0]].shape
    if "time_major" not in operator.options or len(dims) != 3:
        return 1
    return dims[0 if operator.options["time_major"] else 1]


def _with_first(graph: TfliteGraph, state: TfliteTensor) -> TfliteGraph:
    """Return a graph that sets a variable to zero too."""
    handle, zero = len(graph.tensors), len(graph.tensors) + 1
    zeros = replace(state, name=f"{state.name}/zero", values=np.zeros(state.shape, "float32"))
    return replace(
        graph,
        tensors=(*graph.tensors, _handle(state.name), zeros),
        operators=(
            *graph.operators,
            _with_handle(state.name, handle),
            TfliteOperator(ASSIGN, (handle, zero), ()),
        ),
    )


def _handle(name: str) -> TfliteTensor:
    return TfliteTensor(f"{name}/handle", (), "resource")


def _with_handle(name: str, handle: int) -> TfliteOperator:
    return TfliteOperator(HANDLE, (), (handle,), {"container": "", "shared_name": name})
