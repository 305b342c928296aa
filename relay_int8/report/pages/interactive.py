"""Tables that sort and search, and figures of which one is shown at a time; a little JavaScript.

``SCRIPT`` belongs once on a page that has any of them, behind them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from relay_int8.report.pages.page import figure, table

Traces = Sequence[Mapping[str, Any]]

SCRIPT = """<script>
"use strict";
function isNumber(text) { return !Number.isNaN(parseFloat(text)); }
function compare(a, b, numbers) {
  if (!numbers) { return a.localeCompare(b, undefined, {numeric: true}); }
  return parseFloat(a) - parseFloat(b);
}
function sortRows(head, index, descending) {
  const body = head.closest("table").tBodies[0];
  const numbers = head.classList.contains("number");
  const text = (row) => row.cells[index].textContent;
  const known = [], unknown = [];
  for (const row of body.rows) {
    (numbers && !isNumber(text(row)) ? unknown : known).push(row);
  }
  known.sort((a, b) => (descending ? -1 : 1) * compare(text(a), text(b), numbers));
  body.append(...known, ...unknown);
}
for (const frame of document.querySelectorAll(".sortable")) {
  const rows = frame.querySelector("tbody").rows;
  frame.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  frame.querySelectorAll("th").forEach((head, index) => {
    head.addEventListener("click", () => {
      const descending = head.dataset.order === "up";
      head.dataset.order = descending ? "down" : "up";
      sortRows(head, index, descending);
    });
  });
}
for (const frame of document.querySelectorAll(".chooser")) {
  const choices = JSON.parse(frame.querySelector("script.choices").textContent);
  const select = frame.querySelector("select");
  const show = () => {
    choices.traces[select.selectedIndex].forEach((traces, index) => {
      const plot = document.getElementById(choices.figures[index]);
      const layout = {...plot.layout};
      for (const axis of ["xaxis", "yaxis"]) {
        layout[axis] = {...layout[axis], autorange: true};
        delete layout[axis].range;
      }
      Plotly.react(plot, traces, layout);
    });
  };
  select.addEventListener("change", show);
  frame.querySelector("input").addEventListener("change", (event) => {
    const wanted = event.target.value.toLowerCase();
    const found = [...select.options].findIndex((o) => o.text.toLowerCase().includes(wanted));
    if (found >= 0) { select.selectedIndex = found; show(); }
  });
}
</script>"""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """One figure of a chooser: what identifies it, its titles, anything else of the layout."""

    name: str
    x: str
    y: str
    layout: Mapping[str, Any] = field(default_factory=dict)


def sortable_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> str:
    """Return a table with a field that filters its rows; a click on a heading sorts by it.

    Columns in ``right`` are sorted as numbers; what is none comes last.
    """
    search = '<input type="search" placeholder="search" aria-label="search">'
    return f'<div class="sortable">{search}{table(header, rows, right=right)}</div>'


def chooser(figures: Sequence[Axes], choices: Mapping[str, Sequence[Traces]]) -> str:
    """Return figures that show one of ``choices`` at a time, the first at first.

    Parameters
    ----------
    figures
        One or more.
    choices
        Name -> the traces of each figure; at least one.
    """
    first = next(iter(choices.values()))
    plots = [
        figure(traces, name=axes.name, x=axes.x, y=axes.y, **axes.layout)
        for axes, traces in zip(figures, first, strict=True)
    ]
    data = {"figures": [axes.name for axes in figures], "traces": list(choices.values())}
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    options = "".join(f"<option>{escape(name)}</option>" for name in choices)
    return (
        f'<div class="chooser"><select aria-label="shown">{options}</select>\n'
        '<input type="search" placeholder="search" aria-label="search">\n'
        + "\n".join(plots)
        + f'\n<script type="application/json" class="choices">{text}</script></div>'
    )
