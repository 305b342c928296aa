"""TensorRT's calibration cache: text, one scale per tensor as hexadecimal float32.

::

    TRT-7103-EntropyCalibration2
    data_0: 4000889d
    (Unnamed Layer* 12) [Convolution]_output: 3d010a14

The first line names version and algorithm (EntropyCalibration, EntropyCalibration2,
MinMaxCalibration, LegacyCalibration); TensorRT calibrates anew if it is not its own. The digits are
the bits of the scale, ``dynamic range / 127``, big-endian. Names may hold ``:`` and spaces: a line
is split at its last ``": "``. Scale 0: TensorRT leaves the tensor in float; here it is the range
[0, 0].
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import numpy as np

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import (
    Exchange,
    Format,
    left_out,
    per_line,
    require_lines,
    symmetric,
    threshold,
    verbatim,
)
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError

NAME = "tensorrt"
HEADER = re.compile(r"TRT-\d+-\w+")
DEFAULT_HEADER = "TRT-8601-EntropyCalibration2"
NOTE = "TensorRT cache "


def recognizes(text: str) -> bool:
    """Say whether the first line is a cache's."""
    return HEADER.match(text) is not None


def read(text: str) -> Exchange:
    """Return the table of a cache."""
    header, _, lines = text.partition("\n")
    if not HEADER.fullmatch(header.strip()):
        raise CalibrationError(
            f'first line {header[:60]!r} found; a TensorRT cache begins like "{DEFAULT_HEADER}"'
        )
    entries = per_line(lines, "TensorRT cache", _line)
    table = CalibrationTable(entries=entries, notes=(NOTE + header.strip(),))
    return Exchange(table=table)


def _line(line: str) -> tuple[str, Entry]:
    name, separator, digits = line.rpartition(": ")
    if not separator:
        raise ValueError(f'{line[:60]!r} has no ": "')
    return name, _entry(digits.strip())


def _entry(digits: str) -> Entry:
    if not re.fullmatch(r"[0-9a-fA-F]{8}|0+", digits):  # fewer are what is left of a cut line
        raise ValueError(f"{digits!r} is not the 8 hexadecimal digits of a float32")
    scale = np.float32(struct.unpack("!f", bytes.fromhex(digits.zfill(8)))[0])
    if not (np.isfinite(scale) and scale >= 0):
        raise ValueError(f"scale {scale} found; a finite one from 0 up is needed")
    from_threshold = symmetric(float(_threshold(scale)), f"{NAME} {digits}")
    return (
        from_threshold
        if from_threshold.qparams().scale == scale or scale == 0
        else replace(from_threshold, scale=scale)
    )


@np.errstate(over="ignore")
def _threshold(scale: np.float32) -> np.float32:
    """Return the float32 T with ``float32(T / 127) == scale``; one in 130 scales has none."""
    near = np.float32(float(scale) * 127)
    for candidate in (near, *np.nextafter(near, np.array([0, np.inf], np.float32))):
        if np.float32(float(candidate) / 127) == scale:
            return np.float32(candidate)
    return near


def write(exchange: Exchange) -> str:
    """Return the cache."""
    table = exchange.table
    headers = [note.removeprefix(NOTE) for note in table.notes if note.startswith(NOTE)]
    lines = [headers[0] if headers else DEFAULT_HEADER]
    for name, item in table.entries.items():
        lines.append(f"{name}: {verbatim(item, NAME, _entry) or _digits(item)}")
    return "\n".join(lines) + "\n"


def _digits(item: Entry) -> str:
    exact = item.scale if item.scheme == "s8" else None
    scale = np.float32(float(threshold(item)) / 127) if exact is None else exact
    return struct.pack("!f", scale).hex()


def losses(exchange: Exchange) -> list[str]:
    """Return what a cache cannot carry."""
    require_lines(exchange)
    return left_out(exchange)


FORMAT = Format(
    name=NAME,
    suffixes=(".trt", ".trtcache"),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
