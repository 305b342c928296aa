"""The requantization mode that specs and kernels share."""

from __future__ import annotations

from dataclasses import dataclass

from schedules.rounding import Requantize, Rounding
from schedules.spec.operator_spec import OperatorSpec
from schedules.template import ScheduleError


def shift_of(name: str) -> str:
    """Return the name of the shift of multiplier ``name``: "shift_neg" for "m_neg"."""
    return f"shift{name.removeprefix('m')}"


@dataclass(frozen=True, kw_only=True)
class Requantizing(OperatorSpec):
    """An operator that multiplies sums by real numbers.

    ``requantize`` is "float", or the rounding of fixed-point arithmetic: then a multiplier is 31
    bits and a right shift, both int32, and clamp is int32; x and y are integers
    (``schedules.reference.exact.shift_right`` has the roundings).
    """

    requantize: Requantize = "float"

    def __post_init__(self) -> None:
        floats = [name for name in (*self.tensors, "y") if self.dtype(name) == "float32"]
        if self.rounding and floats:
            raise ScheduleError(
                f"{self.kind}: {floats[0]} is float32, and {self.requantize} rounds integers; "
                'requantize="float" takes floats'
            )

    @property
    def rounding(self) -> Rounding | None:
        """The rounding of fixed-point arithmetic; None where multipliers are float32."""
        return None if self.requantize == "float" else self.requantize

    def scaled_by(self, *names: str) -> tuple[str, ...]:
        """Return the constants that multipliers ``names`` are: "m" is m and shift, fixed-point."""
        if not self.rounding:
            return names
        return tuple(part for name in names for part in (name, shift_of(name)))

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``, scaled or not."""
        known = super().constant_dtype(name)
        return "int32" if self.rounding and known == "float32" else known
