"""The plan: which tensors become integers, which layers stay in float, and why. No target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from relay_int8 import finite_json
from relay_int8.field_types import filled
from relay_int8.numerics.qparams import PlannedScheme
from relay_int8.numerics.unary import UNARY

Cause = Literal["", "excluded", "unsupported", "unneeded"]


@dataclass(frozen=True, kw_only=True)
class TensorPlan:
    """How one tensor is quantized.

    ``scheme``: "u8" [0, 255], "s8" [-127, 127], "asymmetric" (with a zero point), or "input":
    u8 if the calibration data is never negative, else s8. ``like`` names the tensor whose
    parameters it shares, itself in most cases.
    """

    scheme: PlannedScheme
    like: str


@dataclass(frozen=True, kw_only=True)
class LayerPlan:
    """One layer: its result's name, its kind, and the reason why it stays in float, if it does.

    ``root`` names the result of its first operator, ahead of bias and activation. ``cause`` sorts
    the reasons: the user excluded it, it has no integer form, or integers would save nothing there.
    """

    name: str
    root: str
    kind: str
    macs: int
    reason: str | None = None
    cause: Cause = ""

    @property
    def integer(self) -> bool:
        """Whether it is computed in integers."""
        return self.reason is None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The decisions of annotate: a scheme for each integer tensor, a line for each layer.

    ``model_hash`` is of the float model, as calibration tables have it; "" where it is not said.
    """

    tensors: Mapping[str, TensorPlan]
    layers: tuple[LayerPlan, ...]
    model_hash: str = ""

    @property
    def calibrated(self) -> tuple[str, ...]:
        """Names of the tensors whose ranges calibration has to find."""
        return tuple(dict.fromkeys(tensor.like for tensor in self.tensors.values()))

    @property
    def schemes(self) -> dict[str, PlannedScheme]:
        """The scheme of each tensor whose range calibration has to find."""
        return {name: self.tensors[name].scheme for name in self.calibrated}

    @property
    def integer_layers(self) -> frozenset[str]:
        """Names of the layers that are computed in integers."""
        return frozenset(layer.name for layer in self.layers if layer.integer)

    @property
    def exclusions(self) -> tuple[str, ...]:
        """The layers that stay in float by choice, by their first operators.

        Those with a ``reason``, unless its ``cause`` says that there was no choice. Who edits a
        plan gives a layer a reason to leave it in float, and null to have it in integers.
        """
        return tuple(
            layer.root  # the name of one that ends in a residual addition means that addition alone
            for layer in self.layers
            if layer.reason is not None and layer.cause in ("", "excluded")
        )

    @property
    def additions(self) -> frozenset[str]:
        """What is a layer of its own, and might be part of one: ``find_groups`` needs it.

        Additions, functions, slopes.
        """
        kinds = ("activation", "function", *UNARY)
        functions = {layer.name for layer in self.layers if layer.kind in kinds}
        return frozenset(functions).union(
            layer.root for layer in self.layers if layer.kind == "add"
        )

    def to_json(self) -> str:
        """Return the plan as readable JSON."""
        tensors = {name: asdict(tensor) for name, tensor in self.tensors.items()}
        layers = [asdict(layer) for layer in self.layers]
        document = {"model_hash": self.model_hash, "tensors": tensors, "layers": layers}
        return json.dumps(document, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that :meth:`to_json` wrote."""
        fields = finite_json.loads(text)
        if not isinstance(fields, dict) or not {"tensors", "layers"} <= set(fields):
            raise ValueError("it has no tensors and layers")
        return cls(
            tensors={
                name: filled(TensorPlan, item, f"tensor {name}")
                for name, item in fields["tensors"].items()
            },
            layers=tuple(
                filled(LayerPlan, item, f"layers[{index}]")
                for index, item in enumerate(fields["layers"])
            ),
            model_hash=str(fields.get("model_hash", "")),
        )
