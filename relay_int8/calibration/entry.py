"""What calibration knows of one tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.numerics.qparams import SCHEMES, QParams, Scheme, activation


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was seen of one tensor, and what was chosen for it.

    Parameters
    ----------
    scheme
        "u8", "s8" or "asymmetric".
    low, high
        The chosen range; values beyond it saturate. Equal to zero both: no range, scale 1.
    observed
        The exact range of the data.
    method
        How low and high were chosen, with its parameters.
    histogram
        The counts behind the choice, where they were kept.
    notes
        Warnings for the report.
    scale
        Given instead of made from the range: a scale of another tool that no float32 range has.
    """

    scheme: Scheme
    low: np.float32
    high: np.float32
    observed: Range
    method: str
    histogram: Histogram | None = None
    notes: tuple[str, ...] = ()
    scale: np.float32 | None = None

    def qparams(self) -> QParams:
        """Return scale and zero point of the chosen range."""
        params = activation(self.scheme, float(self.low), float(self.high))
        return params if self.scale is None else replace(params, scale=self.scale)

    def to_fields(self) -> dict[str, Any]:
        """Return the entry as JSON values that :meth:`from_fields` reads back exactly."""
        fields: dict[str, Any] = {
            "scheme": self.scheme,
            "low": _shortest(self.low),
            "high": _shortest(self.high),
            "method": self.method,
            "observed": {
                "low": None if self.observed.empty else _shortest(self.observed.low),
                "high": None if self.observed.empty else _shortest(self.observed.high),
                "images": self.observed.images,
                "nonfinite": self.observed.nonfinite,
            },
            "notes": list(self.notes),
        }
        if self.scale is not None:
            fields["scale"] = _shortest(self.scale)
        if self.histogram is not None:
            grid = self.histogram.grid
            fields["histogram"] = {
                "low": _shortest(grid.low),
                "high": _shortest(grid.high),
                "absolute": grid.absolute,
                "counts": " ".join(map(str, self.histogram.counts)),
            }
            if self.histogram.zeros:
                fields["histogram"]["zeros"] = self.histogram.zeros
        return fields

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Entry:
        """Return the entry that :meth:`to_fields` wrote.

        Raises
        ------
        KeyError, TypeError, ValueError, AttributeError, CalibrationError
            Something is missing, of another type or out of range.
        """
        seen = fields["observed"]
        observed = Range(images=int(seen["images"]), nonfinite=int(seen["nonfinite"]))
        if seen["low"] is not None:
            low, high = _float32(seen["low"]), _float32(seen["high"])
            observed = Range(low, high, observed.images, observed.nonfinite)
        entry = cls(
            scheme=_scheme(fields["scheme"]),
            low=_float32(fields["low"]),
            high=_float32(fields["high"]),
            observed=observed,
            method=str(fields["method"]),
            histogram=_histogram(fields["histogram"]) if "histogram" in fields else None,
            notes=tuple(map(str, fields["notes"])),
            scale=_float32(fields["scale"]) if "scale" in fields else None,
        )
        entry.qparams()
        return entry


def _histogram(fields: Mapping[str, Any]) -> Histogram:
    counts = np.array([int(count) for count in fields["counts"].split()], np.int64)
    low, high = _float32(fields["low"]), _float32(fields["high"])
    grid = Grid(low, high, bool(fields["absolute"]), len(counts))
    return Histogram(grid, counts, int(fields.get("zeros", 0)))


def _scheme(name: str) -> Scheme:
    for scheme in SCHEMES:
        if scheme == name:
            return scheme
    raise ValueError(f"scheme {name!r} is none of {', '.join(SCHEMES)}")


def _float32(value: object) -> np.float32:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"a number is needed, {value!r} found")
    with np.errstate(over="ignore"):
        number = np.float32(value)
    if not np.isfinite(number):
        raise ValueError(f"{value} is not a finite float32")
    return number


def _shortest(value: np.float32) -> float:
    """Return the shortest decimal that rounds to this float32; JSON prints it as it is."""
    return float(str(np.float32(value)))
