"""Hand-written ranges: JSON, name -> T, [low, high], {"threshold": T} or {"scale": s}.

::

    {"input": 2.64, "conv1/relu": [0, 5.1], "logits": {"scale": 0.02}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import Exchange, Format, entry, left_out, symmetric
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError

NAME = "ranges"


def given_ranges(numbers: Mapping[str, Any]) -> CalibrationTable:
    """Return the table of ranges that the user chose.

    Parameters
    ----------
    numbers
        Name -> threshold, (low, high), ``{"threshold": T}`` or ``{"scale": s}``. A threshold or a
        scale is that of s8, T = 127 * s; [0, high] is u8, other pairs are asymmetric. The model has
        the last word (:func:`relay_int8.calibration.formats.fit`).

    Raises
    ------
    CalibrationError
        Naming every tensor whose numbers make no sense.
    """
    entries, faults = {}, []
    for name, value in numbers.items():
        try:
            entries[name] = _entry(value)
        except (CalibrationError, TypeError, ValueError) as error:
            faults.append(f"{name}: {error}")
    if faults:
        raise CalibrationError(f"these ranges make no sense: {'; '.join(faults)}")
    return CalibrationTable(entries=entries)


def _entry(value: Any) -> Entry:
    if isinstance(value, Mapping):
        if set(value) == {"threshold"}:
            return _entry(value["threshold"])
        known = set(value) == {"scale"} and isinstance(value["scale"], int | float | np.floating)
        if not known or not 0 < float(value["scale"]) < np.inf:
            raise ValueError(f'{dict(value)} found; {{"scale": s}}, s positive, is expected')
        scale = np.float32(value["scale"])
        item = symmetric(127 * float(scale), NAME)
        return item if item.qparams().scale == scale else replace(item, scale=scale)
    if value is None or isinstance(value, bool | str):
        raise TypeError(f"{value!r} found; a number, [low, high] or a scale is expected")
    if np.ndim(value) == 0:
        if not 0 <= float(value) < np.inf:
            raise ValueError(f"threshold {value} found; a finite one from 0 up is needed")
        return symmetric(float(value), NAME)
    if len(value) != 2:
        raise ValueError(f"{len(value)} numbers found; one range per tensor is needed, [low, high]")
    if any(each is None or isinstance(each, bool | str) for each in value):
        raise TypeError(f"{value!r} found; two numbers are expected, [low, high]")
    low, high = map(float, value)
    return entry(low, high, NAME, scheme="u8" if low == 0 else "asymmetric")


def recognizes(text: str) -> bool:
    """Say whether it is a JSON object of values that have such a form, whatever their numbers."""
    try:
        document = finite_json.loads(text)
    except ValueError:
        return False
    return isinstance(document, dict) and bool(document) and all(map(_has_form, document.values()))


def _has_form(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) in ({"threshold"}, {"scale"})
    return not isinstance(value, list) or not any(isinstance(each, list | dict) for each in value)


def read(text: str) -> Exchange:
    """Return the table."""
    try:
        document = finite_json.loads(text)
    except ValueError as error:
        raise CalibrationError(f"{error}; is the file complete?") from error
    if not isinstance(document, dict):
        raise CalibrationError('ranges are a JSON object: {"tensor": [low, high], ...}')
    return Exchange(table=given_ranges(document))


def write(exchange: Exchange) -> str:
    """Return [low, high] of every tensor, or T where it is symmetric."""
    numbers = {name: _value(item) for name, item in exchange.table.entries.items()}
    return json.dumps(numbers, indent=2, ensure_ascii=False) + "\n"


def _value(item: Entry) -> Any:
    if item.scale is not None and item.scheme == "s8":
        return {"scale": float(str(item.scale))}
    low, high = float(str(item.low)), float(str(item.high))
    return high if -low == high else [low, high]


def losses(exchange: Exchange) -> list[str]:
    """Return what ranges cannot carry."""
    return left_out(exchange, ends=False)


FORMAT = Format(
    name=NAME,
    suffixes=("ranges.json",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
