"""Tables of the command line: with rules and colour on a terminal, plain columns in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 160  # columns where nobody has said how wide the paper is
MOST_ROWS = 2000  # of a table with rules, colour and folded cells
MOST_WIDTH = 9999  # lines are filled up with blanks to it


def terminal(*, error: bool = False) -> Console:
    """Return the console of standard output or error; plain and of a fixed width in a pipe.

    The width in a pipe is that of the variable COLUMNS, where it is set. Text is printed as it is:
    brackets in the names of tensors are no markup.
    """
    columns = os.environ.get("COLUMNS", "")
    plain_width = PLAIN_WIDTH
    if columns.isdecimal() and columns.strip("0"):
        plain_width = int(columns) if len(columns) < 5 else MOST_WIDTH
    stream = sys.stderr if error else sys.stdout
    width = None if stream.isatty() else plain_width
    return Console(highlight=False, markup=False, emoji=False, width=width, stderr=error)


def show(console: Console, title: str, rows: Table) -> None:
    """Print a table under its title; a title that is wider than the table stays on one line."""
    console.print(title, style="bold", soft_wrap=True)
    if rows.row_count > MOST_ROWS:
        console.file.writelines(_lines(rows))
    else:
        console.print(rows)


def _lines(rows: Table) -> Iterator[str]:
    """Yield the lines of a table in plain columns; Rich takes half a millisecond for each."""
    columns = [[str(column.header), *map(str, column.cells)] for column in rows.columns]
    widths = [max(map(len, cells)) for cells in columns]
    pads = [str.rjust if column.justify == "right" else str.ljust for column in rows.columns]
    for line in zip(*columns, strict=True):
        cells = zip(pads, line, widths, strict=True)
        yield "  ".join(pad(cell, width) for pad, cell, width in cells).rstrip() + "\n"


def table(console: Console, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table; rules only on a terminal, ``right`` columns flush right."""
    result = Table(
        box=Table("").box if console.is_terminal else None,
        pad_edge=console.is_terminal,
    )
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return result
