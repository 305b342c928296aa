"""``relay-int8 report``: a page of a report that was written as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8.analysis.report import Report
from relay_int8.analysis.report_page import write_report_page
from relay_int8.analysis.summary import terminal
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import RecordError


def report(
    source: Annotated[Path, typer.Argument(metavar="REPORT.json", help="Of quantize --report.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")],
    table: Annotated[
        Path | None,
        typer.Option(
            help="Calibration table of that run, of quantize --save-table or calibrate: ranges, "
            "and histograms if it holds counts."
        ),
    ] = None,
) -> None:
    """Show a report as a page that opens offline.

    For example: relay-int8 report report.json --table table.json -o report.html
    """
    try:
        found = Report.from_json(source.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{source}: cannot be read as a report: {error}") from error
    ranges = CalibrationTable(entries={}) if table is None else CalibrationTable.load(table)
    write_report_page(found, ranges, output)
    terminal().print(f"{source} -> {output}", soft_wrap=True)
