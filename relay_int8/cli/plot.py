"""``relay-int8 plot``: one figure of a report as a picture."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    from relay_int8.report.pages.interactive import Axes, Traces


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
    from relay_int8.files import require_outputs
    from relay_int8.report.pages.picture import write_picture
    from relay_int8.report.terminal import terminal

    require_outputs(output, read=(source,))
    title, axes, traces = (
        _of_layers(source) if tensor is None else _of_tensor(source, tensor, kind.value)
    )
    write_picture(output, title, axes, traces)
    terminal().print(f"{source} -> {output}", soft_wrap=True)


def _of_layers(source: Path) -> tuple[str, Axes, Traces]:
    from relay_int8.report.contents import read_report
    from relay_int8.report.figures import LAYERS, layer_traces

    found = read_report(source)
    traces = layer_traces(found)
    if not traces:
        raise ConfigError(
            f"{source}: no layer was compared with FP32; quantize with images and --samples"
        )
    return found.model, LAYERS, traces


def _of_tensor(source: Path, tensor: str, kind: str) -> tuple[str, Axes, Traces]:
    from relay_int8.calibration.alternatives import alternatives
    from relay_int8.calibration.table import CalibrationTable
    from relay_int8.report.figures import TENSOR, tensor_traces

    entries = CalibrationTable.load(source).entries
    if tensor not in entries:
        raise ConfigError(
            f"{source}: no tensor is called {tensor!r}; there are {', '.join(entries)}"
        )
    entry = entries[tensor]
    if entry.histogram is None:
        raise ConfigError(f"{source}: it holds no counts; calibrate with --keep-histograms")
    traces = tensor_traces(entry, alternatives(entry))
    figures = {axes.name: (axes, found) for axes, found in zip(TENSOR, traces, strict=True)}
    return tensor, *figures[kind]
