"""Sensitivities in a report: those just measured, or those that ``sensitivity --report`` wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from relay_int8 import finite_json
from relay_int8.errors import RecordError
from relay_int8.messages import few, other_model, unreadable
from relay_int8.report.contents import Report

Ratios = Mapping[str, tuple[float, float]]
"""Layer -> signal-to-noise ratio of the outputs, in dB: it alone in integers, it alone in float."""


def read_ratios(path: Path | str, model_hash: str = "") -> Ratios:
    """Return the sensitivities in a file.

    Raises
    ------
    RecordError
        If it is none of that, or of another float model than ``model_hash``, where both are known.
    """
    try:
        document = finite_json.loads(Path(path).read_bytes())
        if not isinstance(document, dict) or "layers" not in document:
            raise ValueError("it has no layers")
        ratios = {
            layer["name"]: (float(layer["alone"]["snr_db"]), float(layer["without"]["snr_db"]))
            for layer in document["layers"]
        }
        model = str(document.get("model_hash", ""))
    except (OSError, *finite_json.MISREAD) as error:
        reason = f"a layer lacks {error}" if isinstance(error, KeyError) else unreadable(error)
        raise RecordError(
            f"{path}: not what relay-int8 sensitivity wrote: {reason}; "
            "relay-int8 sensitivity --report writes it"
        ) from error
    other = other_model(model, model_hash)
    if other:
        raise RecordError(f"{path}: {other}; measure the sensitivities of the report's own model")
    return ratios


def with_ratios(report: Report, ratios: Ratios) -> Report:
    """Return the report with the sensitivities of its layers.

    Raises
    ------
    RecordError
        They are of layers that the report does not have.
    """
    unknown = sorted(set(ratios) - {layer.name for layer in report.layers})
    if unknown:
        raise RecordError(
            f"sensitivities of {few(unknown)} found, which are no layers of {report.model}; "
            "measure those of the same model"
        )
    layers = tuple(
        dataclasses.replace(layer, alone_db=ratios[layer.name][0], without_db=ratios[layer.name][1])
        if layer.name in ratios
        else layer
        for layer in report.layers
    )
    return dataclasses.replace(report, layers=layers)
