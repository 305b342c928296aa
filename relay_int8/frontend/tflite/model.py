"""A TFLite model in memory: graphs of tensors and operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from relay_int8.frontend.options import require_tensors
from relay_int8.frontend.tflite.tables import Array

OptionValue = int | float | str | tuple[int, ...] | tuple[float, ...]


@dataclass(frozen=True)
class Quantization:
    """``real = (integer - zero) * scale``, of a whole tensor or by index along ``axis``."""

    scale: Array
    zero: Array
    axis: int


@dataclass(frozen=True)
class TfliteTensor:
    """One tensor; ``values`` of a constant, None of what is computed.

    ``open_axes`` are those whose extent the file leaves open; ``shape`` has 1 there. A state
    is kept between runs, and zero before the first.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Array | None = None
    quantization: Quantization | None = None
    open_axes: frozenset[int] = frozenset()
    is_state: bool = False


@dataclass(frozen=True)
class TfliteOperator:
    """One operator: indices of the tensors it reads (-1 where it leaves one out) and gives."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, OptionValue] = field(default_factory=dict)


@dataclass(frozen=True)
class TfliteGraph:
    """A graph of a file; ``operators`` in an order in which they can run."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class TfliteModel:
    """The graphs of a file: the first is the model's, the others are run by operators."""

    graphs: tuple[TfliteGraph, ...]


def cut_at(model: TfliteModel, outputs: Sequence[str]) -> TfliteModel:
    """Return a model whose first graph gives these tensors; itself where none is named.

    Raises
    ------
    ConfigError
        No operator gives a tensor of such a name.
    """
    if not outputs:
        return model
    graph = model.graphs[0]
    places = {
        graph.tensors[index].name: index
        for operator in graph.operators
        for index in operator.outputs
        if index >= 0
    }
    require_tensors(outputs, places)
    cut = replace(graph, outputs=tuple(places[name] for name in outputs))
    return replace(model, graphs=(cut, *model.graphs[1:]))
