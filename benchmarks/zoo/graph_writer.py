"""Nodes, seeded weights and the file of an ONNX network that is written layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
DEFORMABLE = (19, 9)  # of a network with DeformConv


@dataclass(frozen=True)
class Tensor:
    """An activation: its name and its extents without the batch.

    ``square`` is its estimated mean square, ``positive`` the part of that which a ReLU would keep
    because the values behind it are positive.
    """

    name: str
    channels: int
    height: int
    width: int
    square: float
    positive: float = 0.0


@dataclass
class Cost:
    """What a network needs: learned numbers, and multiplications for one image."""

    parameters: int = 0
    macs: int = 0


class GraphWriter:
    """Nodes and weights of a network in the making.

    Parameters
    ----------
    batch
        Leading extent of the input; a name leaves it open.
    seed
        Seed of the weights; None writes no weights, to count them alone.
    """

    def __init__(self, *, batch: int | str, seed: int | None) -> None:
        self.cost = Cost()
        self._batch = batch
        self._rng = None if seed is None else np.random.default_rng(seed)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []

    def finish(self, name: str, output: Tensor) -> onnx.ModelProto:
        """Return the model that ends in ``output``."""
        size = (output.height, output.width)
        dims = (self._batch, output.channels, *(() if size == (1, 1) else size))
        outputs = [helper.make_tensor_value_info(output.name, TensorProto.FLOAT, dims)]
        graph = helper.make_graph(self._nodes, name, self._inputs, outputs, self._weights)
        deformable = any(node.op_type == "DeformConv" for node in self._nodes)
        opset, ir_version = DEFORMABLE if deformable else (OPSET, IR_VERSION)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version,
            producer_name="benchmarks.zoo",
        )

    def _add(self, op: str, inputs: Sequence[str], name: str, **attributes: object) -> None:
        self._nodes.append(helper.make_node(op, list(inputs), [name], name, **attributes))

    def _normal(self, name: str, shape: tuple[int, ...], deviation: float) -> None:
        self.cost.parameters += int(np.prod(shape))
        if self._rng is not None:
            values = self._rng.standard_normal(shape, "float32") * np.float32(deviation)
            self._constant(name, values)

    def _spread(self, name: str, shape: tuple[int, ...], center: float) -> None:
        """Positive numbers around ``center``, log-normal."""
        self.cost.parameters += int(np.prod(shape))
        if self._rng is not None:
            values = np.exp(0.25 * self._rng.standard_normal(shape, "float32"))
            self._constant(name, values * np.float32(center))

    def _constant(self, name: str, value: np.ndarray | np.float32) -> None:
        self._weights.append(numpy_helper.from_array(np.asarray(value), name))
