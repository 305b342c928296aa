"""What other commands wrote, shown: a report as a page, one figure as a picture."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from relay_int8.argument_types import checked
from relay_int8.calibration.alternatives import alternatives
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.files import require_outputs
from relay_int8.messages import few, other_model
from relay_int8.report.accuracy import read_evaluation
from relay_int8.report.contents import read_report
from relay_int8.report.figures import LAYERS, TENSOR, layer_traces, tensor_traces
from relay_int8.report.html_page import write_report_page
from relay_int8.report.pages.picture import write_picture
from relay_int8.report.sensitivity_file import read_ratios, with_ratios


@checked
def render_report(
    source: str | Path,
    output: str | Path,
    *,
    table: str | Path | None = None,
    evaluation: str | Path | None = None,
    sensitivity: str | Path | None = None,
) -> None:
    """Write a saved report as an HTML page that opens offline.

    Parameters
    ----------
    source
        The report, as :meth:`relay_int8.Report.save` wrote it.
    output
        The page to write.
    table
        Calibration table of that run: adds ranges, and histograms if the table has counts.
    evaluation
        What :func:`relay_int8.evaluate` returned, as JSON: adds accuracy, with its uncertainty.
    sensitivity
        What :meth:`relay_int8.LayerAnalysis.save` wrote: adds what each layer costs in accuracy.

    Raises
    ------
    RecordError
        A file cannot be read, is none of its kind, or is of another model than the report.
    CalibrationError
        The table is of another model than the report.
    ConfigError
        Plotly is not installed.
    """
    require_outputs(output, read=(source, table, evaluation, sensitivity))
    report = read_report(source)
    if sensitivity is not None:
        report = with_ratios(report, read_ratios(sensitivity, report.model_hash))
    if evaluation is not None:
        report = dataclasses.replace(report, evaluation=read_evaluation(evaluation, report.digest))
    ranges = CalibrationTable(entries={}) if table is None else CalibrationTable.load(table)
    other = other_model(ranges.model_hash, report.table_hash)
    if other:
        raise CalibrationError(f"{table}: {other}; give the table of the run that wrote {source}")
    write_report_page(report, ranges, output)


@checked
def plot_layers(source: str | Path, output: str | Path) -> None:
    """Draw the signal-to-noise ratio of each layer of a saved report as a PNG picture.

    Raises
    ------
    RecordError
        The report cannot be read.
    ConfigError
        No layer was compared with FP32, or Matplotlib is not installed.
    """
    require_outputs(output, read=(source,))
    report = read_report(source)
    traces = layer_traces(report)
    if not traces:
        raise ConfigError(
            f"{source}: no layer was compared with FP32; quantize with images and "
            "compile_model(samples=8)"
        )
    write_picture(output, report.model, LAYERS, traces)


@checked
def plot_tensor(
    source: str | Path, tensor: str, output: str | Path, *, figure: str = "histogram"
) -> None:
    """Draw one figure of a tensor's range as a PNG picture.

    Parameters
    ----------
    source
        A calibration table that was made with ``keep_histograms``.
    tensor
        Name of the tensor.
    output
        The picture to write.
    figure
        "histogram" (its values, and the ends of its range), "integers" (what they become), or
        "divergence" (of each threshold that the method kl-tensorrt tries).

    Raises
    ------
    CalibrationError
        The table cannot be read.
    ConfigError
        It has no such tensor, or no counts of it; there is no such figure; or Matplotlib is not
        installed.
    """
    require_outputs(output, read=(source,))
    figures = [axes.name for axes in TENSOR]
    if figure not in figures:
        raise ConfigError(f"figure {figure!r} is unknown; choose one of {', '.join(figures)}")
    entries = CalibrationTable.load(source).entries
    if tensor not in entries:
        raise ConfigError(f"{source}: no tensor is called {tensor!r}; there are {few([*entries])}")
    entry = entries[tensor]
    if entry.histogram is None:
        raise ConfigError(
            f"{source}: it holds no counts; calibrate with calibrate_model(keep_histograms=True)"
        )
    index = figures.index(figure)
    traces = tensor_traces(entry, alternatives(entry))[index]
    write_picture(output, tensor, TENSOR[index], traces)
