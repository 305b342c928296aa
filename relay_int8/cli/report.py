"""``relay-int8 report``: a page of a report that was written as JSON."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from relay_int8.errors import CalibrationError


def report(
    source: Annotated[
        Path, typer.Argument(metavar="REPORT.json", help="What quantize --report wrote.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write.")],
    table: Annotated[
        Path | None,
        typer.Option(
            help="Calibration table of that run (quantize --save-table, or calibrate): adds "
            "ranges, "
            "and histograms if the table has counts."
        ),
    ] = None,
    evaluation: Annotated[
        Path | None,
        typer.Option(help="What evaluate --report wrote: adds accuracy, with its uncertainty."),
    ] = None,
    sensitivity: Annotated[
        Path | None,
        typer.Option(
            help="What sensitivity --report wrote: adds what each layer costs in accuracy."
        ),
    ] = None,
) -> None:
    """Show a report as a page that opens offline.

    For example: relay-int8 report report.json --table table.json -o report.html
    """
    from relay_int8.calibration.table import CalibrationTable
    from relay_int8.files import require_outputs
    from relay_int8.messages import other_model
    from relay_int8.report.accuracy import read_evaluation
    from relay_int8.report.contents import read_report
    from relay_int8.report.html_page import write_report_page
    from relay_int8.report.sensitivity_file import read_ratios, with_ratios
    from relay_int8.report.terminal import terminal

    require_outputs(output, read=(source, table, evaluation, sensitivity))
    found = read_report(source)
    if sensitivity is not None:
        found = with_ratios(found, read_ratios(sensitivity, found.model_hash))
    if evaluation is not None:
        found = dataclasses.replace(found, evaluation=read_evaluation(evaluation, found.digest))
    ranges = CalibrationTable(entries={}) if table is None else CalibrationTable.load(table)
    other = other_model(ranges.model_hash, found.table_hash)
    if other:
        raise CalibrationError(f"{table}: {other}; give the table of the run that wrote {source}")
    write_report_page(found, ranges, output)
    terminal().print(f"{source} -> {output}", soft_wrap=True)
