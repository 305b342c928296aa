"""What ONNX nodes are written with: nodes, initializers, and one operator to be written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from tvm import relax

from relay_int8.graph import dataflow

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Operation:
    """One call of a Relax operator.

    Parameters
    ----------
    call
        The call, with its type.
    inputs
        ONNX names of the tensors it reads, constants included, in order.
    outputs
        ONNX names of what it gives.
    """

    call: relax.Call
    inputs: list[str]
    outputs: list[str]

    @property
    def output(self) -> str:
        """Name of the first result."""
        return self.outputs[0]

    @property
    def attrs(self) -> Any:
        """Attributes of the call."""
        return self.call.attrs

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result."""
        return dataflow.shape(self.call)

    def input_shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of an argument."""
        return dataflow.shape(self.call.args[index])


class NodeWriter:
    """Nodes and initializers of an ONNX graph, in order.

    Parameters
    ----------
    open_batch
        Whether the leading extent of tensors is open: no node may name it.
    """

    def __init__(self, open_batch: bool = False) -> None:
        self.open_batch = open_batch
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._names: set[str] = set()

    def node(
        self, operator: str, inputs: Sequence[str], *outputs: str, **attributes: object
    ) -> str:
        """Write a node, called like its first result; return that name."""
        self.nodes.append(
            helper.make_node(operator, list(inputs), list(outputs), name=outputs[0], **attributes)
        )
        return outputs[0]

    def array(self, name: str, values: Array) -> str:
        """Write an initializer; return its name, which is made unique."""
        candidate, count = name, 1
        while candidate in self._names:
            candidate, count = f"{name}#{count}", count + 1
        self._names.add(candidate)
        contiguous = np.asarray(values, order="C")
        self.initializers.append(numpy_helper.from_array(contiguous, candidate))
        return candidate

    def integers(self, name: str, values: Sequence[int]) -> str:
        """Write an int64 initializer."""
        return self.array(name, np.array(values, np.int64))


Writer = Callable[[NodeWriter, Operation], object]
"""Writes the nodes of one operator."""


def ints(values: Any) -> list[int]:
    """Return an attribute as integers."""
    return [int(value) for value in values]


def scalar(writer: NodeWriter, op: Operation, name: str, value: float) -> str:
    """Write one number of the type of the result; ``name`` says what it is."""
    return writer.array(f"{op.output}:{name}", np.array(value, dataflow.dtype(op.call)))
