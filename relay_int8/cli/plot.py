"""``relay-int8 plot``: one figure of a report as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Kind(StrEnum):
    """The figures there are."""

    layers = "layers"
    histogram = "histogram"
    integers = "integers"
    divergence = "divergence"


def plot(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A report (quantize --report) for the kind layers, otherwise a calibration "
            "table with counts "
            "(calibrate --keep-histograms).",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG file to write.")],
    kind: Annotated[Kind, typer.Option(help="Which figure.")] = Kind.histogram,
    tensor: Annotated[
        str | None, typer.Option(help="Tensor to draw; not for the kind layers.")
    ] = None,
) -> None:
    """Draw one figure of a report as a PNG picture.

    For example: relay-int8 plot table.json --tensor relu1 -o relu1.png
    """
    if (kind is Kind.layers) != (tensor is None):
        raise typer.BadParameter("--kind layers draws a report, the other kinds one --tensor")
    import relay_int8
    from relay_int8.cli.terminal import terminal

    if tensor is None:
        relay_int8.plot_layers(source, output)
    else:
        relay_int8.plot_tensor(source, tensor, output, figure=kind.value)
    terminal().print(f"{source} -> {output}", soft_wrap=True)
