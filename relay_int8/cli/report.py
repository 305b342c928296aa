"""``relay-int8 report``: a page of a report that was written as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
    import relay_int8
    from relay_int8.cli.terminal import terminal

    relay_int8.render_report(
        source, output, table=table, evaluation=evaluation, sensitivity=sensitivity
    )
    terminal().print(f"{source} -> {output}", soft_wrap=True)
