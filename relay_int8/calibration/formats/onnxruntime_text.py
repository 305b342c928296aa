"""ONNX Runtime's ``calibration.cache``: text, ``name range``, the range being max|x|, not a scale.

The newest writer takes ``max(highest, lowest)`` without absolute values, so that a tensor which is
negative throughout gets a negative number: nothing can be made of that. Names may hold spaces.
"""

from __future__ import annotations

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import (
    Exchange,
    Format,
    left_out,
    per_line,
    real,
    require_lines,
    symmetric,
    threshold,
    verbatim,
)
from relay_int8.calibration.table import CalibrationTable

NAME = "onnxruntime-text"


def recognizes(text: str) -> bool:
    """Say whether the first line ends with a number and is no other format's."""
    words = text.partition("\n")[0].split()
    try:
        return len(words) > 1 and "_param_" not in words[0] and float(words[-1]) >= 0
    except ValueError:
        return False


def read(text: str) -> Exchange:
    """Return the table."""
    return Exchange(table=CalibrationTable(entries=per_line(text, "ONNX Runtime cache", _line)))


def _line(line: str) -> tuple[str, Entry]:
    name, separator, number = line.rstrip().rpartition(" ")
    if not separator:
        raise ValueError(f"{line[:60]!r} is not: name range")
    return name, _entry(number)


def _entry(number: str) -> Entry:
    if real(number) < 0:
        raise ValueError(
            f"range {number} is negative, a fault of ONNX Runtime's writer; use calibration.json"
        )
    return symmetric(real(number), f"{NAME} {number}")


def write(exchange: Exchange) -> str:
    """Return the cache, sorted by name as ONNX Runtime does."""
    entries = exchange.table.entries
    return "".join(
        f"{name} {verbatim(entries[name], NAME, _entry) or str(float(threshold(entries[name])))}\n"
        for name in sorted(entries)
    )


def losses(exchange: Exchange) -> list[str]:
    """Return what the cache cannot carry."""
    require_lines(exchange)
    return left_out(exchange)


FORMAT = Format(
    name=NAME,
    suffixes=(),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
