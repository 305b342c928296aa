"""ncnn's ``.table``: text, multipliers 127 / T.

::

    conv1_param_0 156.639840 149.203217
    conv1 40.527767

A key with ``_param_`` holds a layer's weights, one multiplier per output channel or group. Any
other key is a layer, and its multiplier the one of the layer's **input**. There are no comments:
``#conv1`` is a layer that ncnn never finds and so leaves in float, and a blank line ends the table.
ncnn writes six decimals, and a space behind every number: by this a table without weights is told
from ONNX Runtime's text.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import (
    Exchange,
    Format,
    left_out,
    per_line,
    real,
    symmetric,
    threshold,
    verbatim,
)
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError

NAME = "ncnn"
PARAM = "_param_"


def recognizes(text: str) -> bool:
    """Say whether the first line is a key of weights and numbers, or ends as ncnn ends lines."""
    line = text.partition("\n")[0].rstrip("\r")
    words = line.split()
    if len(words) > 1 and PARAM in words[0]:
        return True
    return len(words) == 2 and line.endswith(" ") and words[1].replace(".", "", 1).isdigit()


def read(text: str) -> Exchange:
    """Return the table; its entries bear the names of layers."""
    lines = [line.rstrip() for line in text.splitlines()]
    lines = lines[: lines.index("")] if "" in lines else lines
    live = [line for line in lines if not line.startswith("#")]
    weights = [line for line in live if PARAM in line.partition(" ")[0]]
    inputs = [line for line in live if PARAM not in line.partition(" ")[0]]
    table = CalibrationTable(
        entries=per_line("\n".join(inputs), "ncnn table", _line),
        notes=tuple(f"ncnn leaves {line[1:].split()[0]} float" for line in set(lines) - set(live)),
    )
    return Exchange(table=table, weights=dict(map(_weights, weights)))


def _line(line: str) -> tuple[str, Entry]:
    name, *numbers = line.split()
    if len(numbers) != 1:
        raise ValueError(f"{len(numbers)} multipliers for the input of {name}; 1 is expected")
    return name, _entry(numbers[0])


def _entry(number: str) -> Entry:
    multiplier = real(number)
    if not 0 < multiplier < np.inf:
        raise ValueError(f"multiplier {number} found; a positive, finite one is needed")
    return symmetric(127 / multiplier, f"{NAME} {number}")


def _weights(line: str) -> tuple[str, npt.NDArray[np.float64]]:
    key, *numbers = line.split()
    try:
        multipliers = np.array(numbers, np.float64)
    except ValueError as error:
        raise CalibrationError(f"broken ncnn table: {key}: {error}") from error
    if not (multipliers > 0).all():
        raise CalibrationError(f"broken ncnn table: {key}: a multiplier is not positive")
    return key, 1 / multipliers


def write(exchange: Exchange) -> str:
    """Return the table: weights first, as ncnn2table does; every number is followed by a space."""
    lines = [
        f"{key} " + "".join(f"{1 / scale:f} " for scale in scales)
        for key, scales in exchange.weights.items()
    ]
    for name, item in exchange.table.entries.items():
        limit = float(threshold(item))
        number = verbatim(item, NAME, _entry) or (f"{127 / limit:f}" if limit else None)
        if number is not None:
            lines.append(f"{name} {number} ")
    return "\n".join(lines) + "\n"


def losses(exchange: Exchange) -> list[str]:
    """Return what the table cannot carry."""
    entries = exchange.table.entries
    spaced = [name for name in entries if len(name.split()) != 1]
    if spaced:
        raise CalibrationError(f"ncnn's keys have no spaces; rename {', '.join(map(repr, spaced))}")
    sentences = [text for text in left_out(exchange) if "weights" not in text]
    sentences.append("multipliers have six decimals")
    if not exchange.weights:
        sentences.append("the weights' multipliers are missing; with the model they are computed")
    if any(threshold(item) == 0 for item in entries.values()):
        sentences.append("tensors that are always zero are left out")
    return sentences


FORMAT = Format(
    name=NAME,
    suffixes=(".table",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
