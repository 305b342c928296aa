"""The intermediate form of calibration tables between the formats of two tools."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Range
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError
from relay_int8.numerics.qparams import Scheme


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """A table that was read from some format, or is to be written in one.

    Parameters
    ----------
    table
        Ranges of activations by name, in the order of the file.
    weights
        Name -> float64 scales, one per output channel, where the format has them.
    """

    table: CalibrationTable
    weights: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, scales in self.weights.items():
            broken = scales[~(np.isfinite(scales) & (scales > 0))]
            if broken.size:
                raise CalibrationError(
                    f"{name}: a scale of its weights is {broken[0]}; finite ones above 0 are needed"
                )


@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format of calibration tables.

    Parameters
    ----------
    name
        As the command line has it.
    suffixes
        Ends of file names that mean it.
    recognizes
        Whether a text looks like it.
    read
        Text -> exchange; raises CalibrationError.
    write
        Exchange -> text.
    losses
        What :attr:`write` cannot carry of an exchange, as sentences.
    """

    name: str
    suffixes: tuple[str, ...]
    recognizes: Callable[[str], bool]
    read: Callable[[str], Exchange]
    write: Callable[[Exchange], str]
    losses: Callable[[Exchange], list[str]]


def entry(
    low: float,
    high: float,
    method: str,
    *,
    scheme: Scheme = "s8",
    observed: tuple[float, float] | None = None,
) -> Entry:
    """Return the entry of a tensor whose range another tool chose.

    ``method`` is the format's name and what the file says, to the letter: see :func:`verbatim`.
    """
    ends = _ends(low, high)
    seen = Range() if observed is None else Range(*_ends(*observed))
    return Entry(scheme=scheme, low=ends[0], high=ends[1], observed=seen, method=method)


def _ends(low: float, high: float) -> tuple[np.float32, np.float32]:
    """Return the ends of a range; CalibrationError if it is none of float32."""
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise CalibrationError(f"range [{low}, {high}] found; finite, ascending bounds are needed")
    with np.errstate(over="ignore"):
        ends = np.float32(low), np.float32(high)
    if not np.isfinite(ends).all():
        raise CalibrationError(f"range [{low}, {high}] found; float32 ends at 3.4e38")
    return ends


def symmetric(threshold: float, method: str) -> Entry:
    """Return the entry of a tensor of which only T is known: s8 over [-T, T]."""
    return entry(-threshold, threshold, method)


def threshold(item: Entry) -> np.float32:
    """Return T, the larger end of a range."""
    return max(-item.low, item.high)


def verbatim(item: Entry, name: str, read: Callable[[str], Entry]) -> str | None:
    """Return what a file of format ``name`` said of this entry, if that is where it is from.

    None if it is from elsewhere, or if its range was changed since.
    """
    kind, _, text = item.method.partition(" ")
    if kind != name or not text:
        return None
    try:
        before = read(text)
    except (CalibrationError, ValueError):
        return None
    same = (before.low, before.high) == (item.low, item.high)
    half = item.scheme == "u8" and threshold(before) == item.high
    return text if same or half else None


def per_line(text: str, kind: str, parse: Callable[[str], tuple[str, Entry]]) -> dict[str, Entry]:
    """Return name -> entry of lines; a CalibrationError names every line that is broken."""
    entries: dict[str, Entry] = {}
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            name, parsed = parse(line)
            if not name:
                raise ValueError("no name")
            if name in entries:
                raise ValueError(f"{name} for the second time")
        except (CalibrationError, ValueError, OverflowError) as error:
            faults.append(f"line {number}: {error}")
            continue
        entries[name] = parsed
    if faults:
        raise CalibrationError(f"broken {kind}: {'; '.join(faults[:5])}; is the file complete?")
    return entries


def real(text: str) -> float:
    """Return the number that a word of a file is; ValueError if it is none."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is no number") from error


def require_lines(exchange: Exchange) -> None:
    """Require names that fit into a line each, as formats of lines need them."""
    broken = [name for name in exchange.table.entries if len(name.splitlines()) != 1]
    if broken:
        raise CalibrationError(
            f"tensors {broken} are empty names or have line breaks in them, which this format "
            "cannot hold; rename them"
        )


def left_out(exchange: Exchange, *, ends: bool = True) -> list[str]:
    """Return what nearly every format leaves out, as sentences."""
    table, losses = exchange.table, []
    if exchange.weights:
        losses.append(f"scales of the weights of {len(exchange.weights)} layers are left out")
    if any(item.histogram is not None for item in table.entries.values()):
        losses.append("histograms are left out")
    if table.means:
        losses.append("channel means are left out: bias correction will have nothing to work with")
    if table.factors:
        losses.append(
            f"factors of the channels of {len(table.factors)} tensors are left out, of which the "
            "ranges are; for those of the model itself calibrate with preset int8-symmetric, or "
            "quantize with the tool equalization=none"
        )
    unequal = [name for name, item in table.entries.items() if -item.low != item.high]
    signed = [name for name in unequal if table.entries[name].low < 0]
    if ends and signed:
        losses.append(
            f"{len(signed)} ranges are not symmetric; the larger end is kept: {', '.join(signed)}"
        )
    half = len(unequal) - len(signed)
    if ends and half:
        losses.append(
            f"that {half} ranges begin at zero (u8) is left out; the model knows it when reading"
        )
    return losses


def renamed(exchange: Exchange, names: Mapping[str, str]) -> Exchange:
    """Return the exchange with entries under other names; of two for one name the wider."""
    entries: dict[str, Entry] = {}
    for name, item in exchange.table.entries.items():
        new = names.get(name, name)
        if new not in entries or threshold(entries[new]) < threshold(item):
            entries[new] = item
    return replace(exchange, table=replace(exchange.table, entries=entries))
