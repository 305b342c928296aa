"""TPU-MLIR's cali_table: text, ``name threshold min max`` with seven decimals.

::

    # genetated time: 2024-01-01 10:00:00
    # histogram number: 2048
    ###
    # op_name    threshold    min    max
    images 1.0000080 0.0000000 1.0000080

Lines that begin with ``#`` differ between versions and are skipped, until one of the sections
``#int4_th``, ``#weight_scale`` or ``#asym_op``, at which reading ends.
"""

from __future__ import annotations

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import (
    Exchange,
    Format,
    entry,
    left_out,
    per_line,
    real,
    require_lines,
    threshold,
    verbatim,
)
from relay_int8.calibration.table import CalibrationTable

NAME = "tpu-mlir"
COLUMNS = "# op_name    threshold    min    max"
SECTIONS = ("#int4_th", "#weight_scale", "#asym_op")
NOTE = "cali_table "


def recognizes(text: str) -> bool:
    """Say whether it has the line that names the columns, however spaced."""
    return any(line.split() == COLUMNS.split() for line in text.splitlines())


def read(text: str) -> Exchange:
    """Return the table."""
    lines: list[str] = []
    comments: list[str] = []
    cut = ""
    for line in text.splitlines():
        if line.startswith(SECTIONS):
            cut = line.strip()
            break
        (comments if line.startswith("#") else lines).append(line)
    notes = [NOTE + line for line in comments if line.split() != COLUMNS.split()]
    if cut:
        notes.append(f"section {cut} of the cali_table and what follows it were not read")
    entries = per_line("\n".join(lines), "cali_table", _line)
    return Exchange(table=CalibrationTable(entries=entries, notes=tuple(notes)))


def _line(line: str) -> tuple[str, Entry]:
    fields = line.rstrip().rsplit(None, 3)
    if len(fields) != 4:
        raise ValueError(f"{line[:60]!r} is not: name threshold min max")
    return fields[0], _entry(" ".join(fields[1:]))


def _entry(text: str) -> Entry:
    limit, low, high = map(real, text.split())
    if not limit >= 0:
        raise ValueError(f"threshold {limit} found; one from 0 up is needed")
    method = f"{NAME} {text}"
    if low >= 0:
        return entry(0.0, limit, method, scheme="u8", observed=(low, high))
    return entry(-limit, limit, method, observed=(low, high))


def write(exchange: Exchange) -> str:
    """Return the table."""
    table = exchange.table
    comments = [note.removeprefix(NOTE) for note in table.notes if note.startswith(NOTE)]
    lines = comments or [f"# sample number: {table.images}", "###"]
    lines.append(COLUMNS)
    for name, item in table.entries.items():
        lines.append(f"{name} {verbatim(item, NAME, _entry) or _numbers(item)}")
    return "\n".join(lines) + "\n"


def _numbers(item: Entry) -> str:
    seen = item.observed
    low, high = (item.low, item.high) if seen.empty else (seen.low, seen.high)
    return f"{threshold(item):.7f} {low:.7f} {high:.7f}"


def losses(exchange: Exchange) -> list[str]:
    """Return what the table cannot carry."""
    require_lines(exchange)
    sentences = left_out(exchange)
    sentences.append("numbers have seven decimals")
    sentences.append("TPU-MLIR makes its scale of threshold / 128, relay-int8 of threshold / 127")
    if any(len(name.split()) != 1 for name in exchange.table.entries):
        sentences.append("some names hold spaces, which TPU-MLIR itself does not read")
    return sentences


FORMAT = Format(
    name=NAME,
    suffixes=("cali_table",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
