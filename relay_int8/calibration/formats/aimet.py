"""AIMET's encodings: JSON, versions 0.x, 1.0.0 and 2.x, 8-bit integers.

0.x: ``activation_encodings`` is name -> [{bitwidth, dtype, is_symmetric, min, max, offset, scale}];
``param_encodings`` likewise, one per output channel. 1.0.0: lists of {name, bw, dtype, is_sym,
enc_type, scale: [...], offset: [...]}. Integers are 0 .. 255, ``min = scale * offset``; symmetric
is offset -128, or 0 for what is never negative. A symmetric range is ``127 * scale`` on both sides.

2.x: one list, ``encodings``, of {name, output_dtype, y_scale, y_zero_point, axis}, as
QuantizeLinear has them. A list of scales is one per channel and so a weight's; int32 is a bias, and
left out. A zero point in the middle of the type is read as symmetric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import Exchange, Format, entry, left_out
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError

Encodings = dict[str, list[dict[str, Any]]]
NAME = "aimet"
WRITTEN = "0.6.1"


def recognizes(text: str) -> bool:
    """Say whether it is JSON with activation encodings."""
    return text.lstrip().startswith("{") and (
        '"activation_encodings"' in text or ('"encodings"' in text and '"y_scale"' in text)
    )


def read(text: str) -> Exchange:
    """Return ranges and the scales of weights."""
    try:
        document = finite_json.loads(text)
        if "encodings" in document:
            activations, params = _of_version_2(document["encodings"])
        else:
            activations = _by_name(document["activation_encodings"])
            params = _by_name(document.get("param_encodings", {}))
        entries = {name: _entry(encodings) for name, encodings in activations.items()}
        weights = {
            name: np.array([fields["scale"] for fields in encodings], np.float64)
            for name, encodings in params.items()
        }
    except finite_json.MISREAD as error:
        raise CalibrationError(
            f"broken AIMET encodings ({type(error).__name__}: {error}); is the file complete?"
        ) from error
    return Exchange(table=CalibrationTable(entries=entries), weights=weights)


def _by_name(encodings: Any) -> Encodings:
    """Return name -> encodings, each with scale, offset, bitwidth and symmetry, of any version."""
    if isinstance(encodings, Mapping):
        return {name: [_old(fields) for fields in versions] for name, versions in encodings.items()}
    return {
        fields["name"]: [
            {"scale": scale, "offset": offset, "bits": fields["bw"], "symmetric": fields["is_sym"]}
            for scale, offset in zip(fields["scale"], fields["offset"], strict=True)
        ]
        for fields in encodings
    }


def _of_version_2(encodings: list[dict[str, Any]]) -> tuple[Encodings, Encodings]:
    """Return those of tensors and those of weights."""
    activations: Encodings = {}
    weights: Encodings = {}
    for fields in encodings:
        name, dtype = fields["name"], fields["output_dtype"]
        if dtype == "int32":
            continue
        lowest = {"int8": -128, "uint8": 0}.get(dtype)
        if lowest is None:
            raise ValueError(f"{name} is {dtype}; int8 or uint8 is needed")
        scales, points = fields["y_scale"], fields.get("y_zero_point", 0)
        (weights if isinstance(scales, list) else activations)[name] = [
            {"scale": float(s), "offset": lowest - z, "bits": 8, "symmetric": z - lowest == 128}
            for s, z in np.broadcast(scales, points)
        ]
    return activations, weights


def _old(fields: Mapping[str, Any]) -> dict[str, Any]:
    symmetric = str(fields["is_symmetric"]).lower() == "true"
    return {
        "scale": fields["scale"],
        "offset": fields["offset"],
        "bits": fields["bitwidth"],
        "symmetric": symmetric,
    }


def _entry(encodings: list[dict[str, Any]]) -> Entry:
    if len(encodings) != 1 or encodings[0]["bits"] != 8:
        raise ValueError("one encoding of 8 bits per activation is needed")
    scale, offset = float(encodings[0]["scale"]), int(encodings[0]["offset"])
    with np.errstate(over="ignore"):
        exact = np.float32(scale)
    if not (np.isfinite(exact) and exact > 0 and -255 <= offset <= 0):
        raise ValueError(f"scale {scale}, offset {offset} found; a positive one, -255 to 0 needed")
    if offset == 0:
        item = entry(0.0, 255 * scale, NAME, scheme="u8")
    elif encodings[0]["symmetric"] and offset in (-127, -128):
        item = entry(-127 * scale, 127 * scale, NAME)
    else:
        item = entry(scale * offset, scale * (255 + offset), NAME, scheme="asymmetric")
    return item if item.qparams().scale == exact else replace(item, scale=exact)


def write(exchange: Exchange) -> str:
    """Return encodings of version 0.6.1."""
    document = {
        "version": WRITTEN,
        "activation_encodings": {
            name: [_fields(item)] for name, item in exchange.table.entries.items()
        },
        "param_encodings": {
            name: [_encoding(scale, -128, symmetric=True) for scale in scales]
            for name, scales in exchange.weights.items()
        },
    }
    return json.dumps(document, indent=4, ensure_ascii=False) + "\n"


def _fields(item: Entry) -> dict[str, object]:
    params = item.qparams()
    offset = -128 if item.scheme == "s8" else -params.zero_point
    return _encoding(params.scale, offset, symmetric=item.scheme != "asymmetric")


def _encoding(scale: np.floating[Any], offset: int, *, symmetric: bool) -> dict[str, object]:
    exact = float(scale)
    return {
        "bitwidth": 8,
        "dtype": "int",
        "is_symmetric": str(symmetric),
        "max": exact * (255 + offset),
        "min": exact * offset,
        "offset": offset,
        "scale": exact,
    }


def losses(exchange: Exchange) -> list[str]:
    """Return what encodings cannot carry."""
    return [text for text in left_out(exchange, ends=False) if "weights" not in text]


FORMAT = Format(
    name=NAME,
    suffixes=(".encodings",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
