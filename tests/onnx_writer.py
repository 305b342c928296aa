"""Write an ONNX network node by node, with seeded weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper

from tests.onnx_models import model


class OnnxWriter:
    """Writes nodes one after the other; ``channels`` says how many each tensor has."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.channels = {"x": shape[1]}
        self._input = shape
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, np.ndarray] = {}

    def node(self, op: str, inputs: Sequence[str], channels: int, **attributes: object) -> str:
        """Add a node and return its output's name."""
        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        self.channels[name] = channels
        return name

    def constant(self, values: np.ndarray | Sequence[float], dtype: str = "float32") -> str:
        """Add an initializer and return its name."""
        name = f"constant_{len(self._weights)}"
        self._weights[name] = np.asarray(values, dtype)
        return name

    def norm(self, x: str) -> str:
        """Add a batch norm with statistics of its own."""
        channels = self.channels[x]
        spread = [self.rng.uniform(0.7, 1.4, channels) for _ in range(2)]
        moved = [0.2 * self.rng.normal(size=channels) for _ in range(2)]
        parts = [spread[0], *moved, spread[1]]
        return self.node("BatchNormalization", [x, *map(self.constant, parts)], channels)

    def join(self, *parts: str) -> str:
        """Concatenate channels."""
        return self.node("Concat", parts, sum(self.channels[part] for part in parts), axis=1)

    def finish(self, *outputs: str) -> onnx.ModelProto:
        """Return the model that ends in ``outputs``."""
        return model(self._nodes, {"x": self._input}, dict.fromkeys(outputs), self._weights)
