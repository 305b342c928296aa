"""Two pictures of docs/benchmarks.md for the README: speed and accuracy beside other tools.

    scripts/figures            write docs/figures/*.svg
    scripts/figures --check    exit with 1 if they are not what the tables say

The numbers are those of the page's tables, so that a picture and its table cannot differ.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.bar_chart import Bar, Group, bar_chart
from benchmarks.script_parser import script_parser
from relay_int8.files import write_atomic

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "figures"
Table = list[dict[str, str]]
"""Rows of a Markdown table by the titles of their columns."""

MEAN = "geometric mean"
SPEED = {"here": "relay-int8", "OpenVINO": "OpenVINO", "ORT": "ONNX Runtime"}
"""Systems as the columns of the latency table call them, and as the legend does."""
ACCURACY = {
    "default": "relay-int8, default",
    "`--preset auto`": "relay-int8, --preset auto",
    "ONNX Runtime MinMax": "ONNX Runtime",
    "NNCF": "NNCF",
}
"""Rows of the accuracy table, and what the legend calls them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures, or compare them with the tables; return the exit code."""
    parser = script_parser("scripts/figures", __doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    check = parser.parse_args(arguments).check
    made = figures(PAGE.read_text(encoding="utf-8"))
    if check:
        stale = [name for name, svg in made.items() if _written(name) != svg]
        if stale:
            print(f"{', '.join(stale)}: not what {PAGE.name} says; run scripts/figures")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name, svg in made.items():
        write_atomic(FOLDER / name, svg.encode())
    return 0


def figures(page: str) -> dict[str, str]:
    """Return the pictures of the page's text as SVG, by file name."""
    machine = next(line for line in page.splitlines() if line.startswith("Measured on "))
    return {
        "speed.svg": speed(table(page, "Latency, 2 threads"), machine),
        "accuracy.svg": accuracy(table(page, "Beside other tools")),
    }


def table(page: str, heading: str) -> Table:
    """Return the first table below a heading of the third level."""
    section = page.partition(f"\n### {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.partition("\n### ")[0].splitlines() if line.startswith("|")]
    if not lines:
        raise ValueError(f"{PAGE.name}: expected a table below '### {heading}', found none")
    titles, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return [dict(zip(titles, row, strict=True)) for row in rows]


def speed(rows: Table, machine: str) -> str:
    """Return the latency of each system as multiples of this project's."""
    return bar_chart(
        title="Latency of one image, as a multiple of relay-int8's (shorter is faster)",
        note=machine,
        legend=tuple(SPEED.values()),
        groups=[Group(row["network"].strip("*"), _latencies(row)) for row in rows],
    )


def _latencies(row: Mapping[str, str]) -> list[Bar]:
    bars = []
    for system in SPEED:
        ratio = 1.0 if system == "here" else float(row[f"{system} / here"].strip("*"))
        ms = row.get(f"{system} ms")
        words = [f"{ms} ms" if ms else "", "" if system == "here" else f"{ratio:.2f}x"]
        bars.append(Bar(ratio, ", ".join(filter(None, words))))
    return bars


def accuracy(rows: Table) -> str:
    """Return the signal-to-noise ratio of each tool on each network, mean of both directions."""
    (_, *networks), found = rows[0], {row[""]: row for row in rows}
    missing = ACCURACY.keys() - found
    if missing:
        raise ValueError(f"{PAGE.name}: the accuracy table has no row {', '.join(missing)}")
    return bar_chart(
        title="Signal-to-noise ratio of int8 against FP32 in dB (longer is more accurate)",
        note="Mean of both directions: calibrated on one split, scored on the other.",
        legend=tuple(ACCURACY.values()),
        groups=[
            Group(network, [_ratio(found[row][network]) for row in ACCURACY])
            for network in networks
        ],
    )


def _ratio(cell: str) -> Bar:
    """Return the bar of a cell such as "0.620, 0.595; 34.0, 33.0"."""
    values = [float(text) for text in cell.partition(";")[2].split(",")]
    mean = sum(values) / len(values)
    return Bar(mean, f"{mean:.1f}")


def _written(name: str) -> str | None:
    path = FOLDER / name
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
