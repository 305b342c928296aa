"""Fit a table from elsewhere to a model: the schemes are the model's, the ranges the table's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import threshold
from relay_int8.calibration.histogram import Range
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError
from relay_int8.messages import few
from relay_int8.notices import notice
from relay_int8.numerics.qparams import PlannedScheme, resolve_scheme

TENSORRT = "tensorrt "  # prefix of the method of entries that a TensorRT cache gave
ZERO = (
    "ranges are [0, 0], as TensorRT writes of tensors that it leaves in float, and no image says "
    "so; unless they are always zero, exclude them or give a range"
)


def fit(
    table: CalibrationTable,
    tensors: Mapping[str, PlannedScheme],
    others: Collection[str] = (),
) -> CalibrationTable:
    """Return the table with the entries that the model needs, as the model needs them.

    u8 takes [0, T], s8 [-T, T], asymmetric both ends; an "input" is u8 if the table says that it is
    never negative. Tensors of the model that need no range of their own are dropped, with a note;
    other names of a TensorRT cache, which has some of its own such as
    "(Unnamed Layer* 7) [Constant]_output", are too, with a notice.

    Parameters
    ----------
    tensors
        Name -> scheme of all tensors that need a range.
    others
        Names of the model's other tensors.

    Raises
    ------
    CalibrationError
        A range is missing, or a name is no tensor of the model.
    """
    faults = []
    missing = [name for name in tensors if name not in table.entries]
    if missing:
        faults.append(f"ranges are missing for {few(missing)}")
    unknown = [name for name in table.entries if name not in tensors and name not in others]
    skipped = [name for name in unknown if table.entries[name].method.startswith(TENSORRT)]
    if len(skipped) < len(unknown):
        unknown = [name for name in unknown if name not in skipped]
        faults.append(f"the model has no tensors {few(unknown)}")
    if faults:
        raise CalibrationError(f"the table does not fit the model: {'; '.join(faults)}")
    if skipped:
        notice(f"names in the cache that the model has no tensors of are skipped: {few(skipped)}")
    entries = {name: _as_planned(table.entries[name], tensors[name]) for name in tensors}
    dropped = len(table.entries) - len(entries) - len(skipped)
    notes = [f"{dropped} tensors that need no range of their own were dropped"] if dropped else []
    zero = [name for name, item in entries.items() if not item.high > item.low and unseen(item)]
    if zero:
        notes.append(f"{ZERO}: {', '.join(zero)}")
    return replace(table, entries=entries, notes=(*table.notes, *notes))


def unseen(item: Entry) -> bool:
    """Say whether no image stands behind a range: another tool or the user said it."""
    return item.observed.images == 0


def _as_planned(item: Entry, planned: PlannedScheme) -> Entry:
    lowest = item.low if item.observed.empty else item.observed.low
    scheme = resolve_scheme(planned, float(lowest))
    limit = threshold(item)
    low, high = {
        "u8": (np.float32(0), limit),
        "s8": (-limit, limit),
        "asymmetric": (min(item.low, np.float32(0)), max(item.high, np.float32(0))),
    }[scheme]
    observed = item.observed
    if observed.empty:
        observed = Range(low, high)
    same = scheme == item.scheme
    return replace(
        item,
        scheme=scheme,
        low=low,
        high=high,
        observed=observed,
        scale=item.scale if same else None,
    )
