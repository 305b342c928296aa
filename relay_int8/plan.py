"""The plan: which tensors become integers, which layers stay in float, and why. No target."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from relay_int8.errors import RecordError
from relay_int8.files import write_atomic
from relay_int8.qparams import PlannedScheme

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
    """What annotate decided: a scheme for each integer tensor, a line for each layer."""

    tensors: Mapping[str, TensorPlan]
    layers: tuple[LayerPlan, ...]

    @property
    def calibrated(self) -> tuple[str, ...]:
        """Names of the tensors whose ranges calibration has to find."""
        return tuple(dict.fromkeys(tensor.like for tensor in self.tensors.values()))

    @property
    def additions(self) -> frozenset[str]:
        """Additions that are layers of their own; ``find_groups`` needs to know them."""
        return frozenset(layer.root for layer in self.layers if layer.kind == "add")

    def to_json(self) -> str:
        """Return the plan as readable JSON."""
        tensors = {name: asdict(tensor) for name, tensor in self.tensors.items()}
        layers = [asdict(layer) for layer in self.layers]
        return json.dumps({"tensors": tensors, "layers": layers}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Return the plan that :meth:`to_json` wrote."""
        fields = json.loads(text)
        return cls(
            tensors={name: TensorPlan(**item) for name, item in fields["tensors"].items()},
            layers=tuple(LayerPlan(**item) for item in fields["layers"]),
        )


def save_plan(plan: Plan, path: Path | str) -> None:
    """Write a plan as JSON, whole or not at all; :func:`plan_exclusions` reads it back."""
    write_atomic(Path(path), (plan.to_json() + "\n").encode())


def plan_exclusions(path: Path | str) -> tuple[str, ...]:
    """Return the layers that a plan file, perhaps edited, leaves in float by choice.

    Those with a ``reason``, unless its ``cause`` says that there was no choice. To leave a layer in
    float give it a reason; to have it in integers make its reason null.

    Raises
    ------
    RecordError
        If the file is no plan.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read as a plan: {error}") from error
    try:
        plan = Plan.from_json(text)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordError(
            f"{path}: not a plan of relay-int8 ({error}); sensitivity --plan writes one"
        ) from error
    return tuple(
        layer.name
        for layer in plan.layers
        if layer.reason is not None and layer.cause in ("", "excluded")
    )
