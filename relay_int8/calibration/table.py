"""The result of calibration: a range for every quantized tensor, and a file to keep it in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from relay_int8 import finite_json
from relay_int8.calibration.channels import Factors
from relay_int8.calibration.entry import Entry
from relay_int8.errors import CalibrationError
from relay_int8.files import write_atomic
from relay_int8.graph.digest import UNKNOWN, Identity
from relay_int8.messages import few, other_model, unreadable
from relay_int8.numerics.qparams import PlannedScheme, QParams, resolve_scheme

FORMAT = "relay-int8 calibration table"
VERSION = 1


@dataclass(frozen=True, kw_only=True)
class CalibrationTable:
    """Tensor name -> :class:`Entry`.

    Parameters
    ----------
    entries
        By tensor name, kept in this order.
    model_hash
        Of the float model; "" where the table came from another tool and names no model.
    weights_hash
        Of the model's weights alone, which it has for inputs of every size; "" if it has none, or
        the table came from another tool.
    images
        How many images were looked at.
    notes
        Warnings about the whole, for the report.
    means
        Tensor name -> float32 (channels,): its channels' means over all images, of the tensors that
        bias correction reads (``:last axis`` follows the name where that are the columns of a
        tensor of four axes); empty where the table came from another tool.
    factors
        Tensor name -> float32 (channels,): by what its channels are scaled before it is quantized,
        and its readers' weights divided. Ranges and means are of scaled tensors.
    """

    entries: Mapping[str, Entry]
    model_hash: str = ""
    weights_hash: str = ""
    images: int = 0
    notes: tuple[str, ...] = ()
    means: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    factors: Factors = field(default_factory=dict)

    def qparams(self, names: Iterable[str]) -> dict[str, QParams]:
        """Return scale and zero point of the chosen range of each of these tensors."""
        return {name: self.entries[name].qparams() for name in names}

    def with_histograms_of(self, other: CalibrationTable) -> CalibrationTable:
        """Return this table with the counts of ``other``, which has the same tensors."""
        entries = {
            name: replace(entry, histogram=other.entries[name].histogram)
            for name, entry in self.entries.items()
        }
        return replace(self, entries=entries)

    def check(
        self, tensors: Iterable[str] | Mapping[str, PlannedScheme], model: Identity = UNKNOWN
    ) -> None:
        """Refuse a table that was not made for the model.

        Parameters
        ----------
        tensors
            Names of all tensors that need a range; given with their schemes, these must agree
            with the table's.
        model
            The float model; compared where both are known. Its inputs may have other sizes than
            those the table was made for (:meth:`is_of_other_sizes`).

        Raises
        ------
        CalibrationError
            Naming what does not fit.
        """
        wanted = list(tensors)
        other = other_model(self.model_hash, model.model)
        faults = [f"it was {other}"] if other and not self.is_of_other_sizes(model) else []
        missing = [name for name in wanted if name not in self.entries]
        if missing:
            faults.append(f"ranges are missing for {few(missing)}")
        unknown = sorted(set(self.entries) - set(wanted))
        if unknown:
            faults.append(f"the model has no tensors {few(unknown)}")
        schemes = self._other_schemes(tensors) if isinstance(tensors, Mapping) else []
        if schemes:
            faults.append(few(schemes))
        if faults:
            raise CalibrationError(
                f"the calibration table does not fit the model: {'; '.join(faults)}; "
                "calibrate this model again"
            )

    def is_of_other_sizes(self, model: Identity) -> bool:
        """Say whether the table was made for the same network with inputs of other sizes."""
        other = other_model(self.model_hash, model.model) is not None
        return other and self.weights_hash == model.weights != ""

    def _other_schemes(self, planned: Mapping[str, PlannedScheme]) -> list[str]:
        return [
            f"{name} was calibrated as {entry.scheme}, the plan says {planned[name]}"
            for name, entry in self.entries.items()
            if name in planned
            and entry.scheme != resolve_scheme(planned[name], float(entry.observed.low))
        ]

    def save(self, path: Path | str) -> None:
        """Write the table as JSON, whole or not at all."""
        write_atomic(Path(path), self.to_json().encode())

    def to_json(self) -> str:
        """Return the table as text that :meth:`from_json` reads back exactly."""
        document: dict[str, object] = {
            "format": FORMAT,
            "version": VERSION,
            "model_hash": self.model_hash,
            "weights_hash": self.weights_hash,
            "images": self.images,
            "notes": list(self.notes),
            "tensors": {name: entry.to_fields() for name, entry in self.entries.items()},
            "means": {name: " ".join(map(str, means)) for name, means in self.means.items()},
        }
        if self.factors:
            document["factors"] = {
                name: " ".join(map(str, factors)) for name, factors in self.factors.items()
            }
        return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def load(cls, path: Path | str) -> CalibrationTable:
        """Read the table at ``path``; a CalibrationError says what is wrong with it."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CalibrationError(
                f"{path}: cannot be read as a calibration table: {unreadable(error)}"
            ) from error
        try:
            return cls.from_json(text)
        except CalibrationError as error:
            raise CalibrationError(f"{path}: {error}") from error

    @classmethod
    def from_json(cls, text: str) -> CalibrationTable:
        """Return the table that :meth:`to_json` wrote."""
        try:
            document = finite_json.loads(text)
        except ValueError as error:
            raise CalibrationError(f"{error}; is the file complete?") from error
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise CalibrationError(
                f'not a calibration table of relay-int8: its "format" is not "{FORMAT}"; '
                "relay-int8 calibrate writes one"
            )
        if document.get("version") != VERSION:
            raise CalibrationError(
                f"version {document.get('version')} found, {VERSION} expected; calibrate again"
            )
        try:
            return cls(
                entries=_entries(document["tensors"]),
                model_hash=str(document["model_hash"]),
                weights_hash=str(document.get("weights_hash", "")),
                images=int(document["images"]),
                notes=tuple(map(str, document["notes"])),
                means={name: _means(text) for name, text in document.get("means", {}).items()},
                factors={
                    name: _factors(text) for name, text in document.get("factors", {}).items()
                },
            )
        except finite_json.MISREAD as error:
            raise CalibrationError(
                f"broken table ({type(error).__name__}: {error}); calibrate again"
            ) from error


def _means(text: str) -> npt.NDArray[np.float32]:
    means = np.array(text.split(), np.float32)
    if not np.isfinite(means).all():
        raise ValueError(f"a mean is {means[~np.isfinite(means)][0]}")
    return means


def _factors(text: str) -> npt.NDArray[np.float32]:
    factors = np.array(text.split(), np.float32)
    sound = np.isfinite(factors) & (factors > 0)
    if not sound.all():
        raise ValueError(f"a factor is {factors[~sound][0]}, numbers above zero are expected")
    return factors


def _entries(tensors: Mapping[str, Mapping[str, object]]) -> dict[str, Entry]:
    entries, faults = {}, []
    for name, fields in tensors.items():
        try:
            entries[name] = Entry.from_fields(fields)
        except (*finite_json.MISREAD, CalibrationError) as error:
            faults.append(f"{name}: {type(error).__name__}: {error}")
    if faults:
        raise CalibrationError(f"broken entries, calibrate again: {'; '.join(faults)}")
    return entries
