"""A report as an HTML page: what became of each layer, and where each tensor's range was cut.

Everything is made from the report and the calibration table. Histograms, and what other methods
would have chosen, are there for tensors whose counts the table holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.analysis.report import LayerReport, Report
from relay_int8.analysis.summary import decibels, gpu_rows
from relay_int8.calibration.alternatives import alternatives, divergence_curve
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import RecordError
from relay_int8.pages.interactive import SCRIPT, Axes, Traces, chooser, sortable_table
from relay_int8.pages.page import (
    Section,
    figure,
    paragraph,
    require_plotly,
    table,
    write_page,
)

BARS = 256  # of a histogram on the page, at most; neighbouring bins are added up
POINTS = 240  # of a divergence curve, at most
Alternatives = Mapping[str, Mapping[str, Entry]]


def is_page(path: Path | str | None) -> bool:
    """Say whether a report of this name is a page; a ConfigError if Plotly is not installed."""
    if path is None or Path(path).suffix.lower() not in (".html", ".htm"):
        return False
    require_plotly()
    return True


def write_report_page(report: Report, ranges: CalibrationTable, path: Path | str) -> None:
    """Write the page of a report and of the table that the network was quantized with.

    An empty table leaves ranges and histograms out.

    Raises
    ------
    RecordError
        If the file cannot be written.
    ConfigError
        If Plotly is not installed.
    """
    others = {name: alternatives(entry) for name, entry in ranges.entries.items()}
    others = {name: found for name, found in others.items() if found}
    sections = [
        *_hazards(report, ranges),
        _layers(report),
        _coverage(report),
        *([_ranges(ranges), _activations(ranges, others)] if ranges.entries else []),
        *_methods(ranges, others),
        _settings(report),
    ]
    sections[-1] = Section(title=sections[-1].title, parts=(*sections[-1].parts, SCRIPT))
    try:
        write_page(path, f"{report.model} in integers", _facts(report), sections)
    except OSError as error:
        raise RecordError(f"{path}: cannot be written: {error}") from error


def _facts(report: Report) -> dict[str, str]:
    coverage = report.coverage
    layers = coverage["int8_layers"] + coverage["float_layers"]
    macs = coverage["int8_macs"] + coverage["float_macs"]
    share = f", {coverage['int8_macs'] / macs:.2%} of the multiplications" if macs else ""
    outputs = {
        f"Output {output.name}": f"signal to noise {decibels(output.snr_db)} dB, largest error "
        f"{output.max_error:.4g}, over {report.samples} images"
        for output in report.outputs
    }
    sizes = {"Model file": report.model_bytes, "Artifact": report.artifact_bytes}
    return {
        "Quantized model": report.digest,
        "Layers in integers": f"{coverage['int8_layers']} of {layers}{share}",
        **outputs,
        **{name: f"{size / 1e6:.2f} MB" for name, size in sizes.items() if size},
        **{f"Latency {name}": f"{ms:.3f} ms" for name, ms in report.latency_ms.items()},
        **{f"Measured on: {key}": str(value) for key, value in report.machine.items()},
    }


def _hazards(report: Report, ranges: CalibrationTable) -> list[Section]:
    """Return a section of what to look at first, if there is anything."""
    parts = [paragraph(note) for note in ranges.notes]
    if report.hazards:
        rows = [[hazard.kind, hazard.name, hazard.message] for hazard in report.hazards]
        parts.append(sortable_table(("hazard", "where", "what"), rows))
    return [Section(title="Hazards", parts=tuple(parts))] if parts else []


def _layers(report: Report) -> Section:
    numbers = ("place", "MMAC", "SNR dB", "saturated %", "time us")
    header = ("place", "layer", "operator", "type", *numbers[1:], "kernel", "reason")
    rows = [
        [
            str(place),
            layer.name,
            layer.kind,
            "int8" if layer.integer else "float",
            f"{layer.macs / 1e6:.3f}" if layer.macs else "",
            decibels(layer.snr_db),
            "-" if layer.saturation is None else f"{100 * layer.saturation:.4f}",
            "-" if layer.time_us is None else f"{layer.time_us:.1f}",
            layer.kernel,
            layer.reason,
        ]
        for place, layer in enumerate(report.layers, 1)
    ]
    text = (
        "Signal to noise: the power of the FP32 result over that of the error, with every layer "
        "before it quantized too. Saturated: integers at an end of their range."
    )
    parts = [paragraph(text), sortable_table(header, rows, right=numbers)]
    measured = [layer for layer in report.layers if layer.snr_db not in (None, float("inf"))]
    if measured:
        parts.insert(1, _by_layer(report.layers, measured))
    return Section(title="Layers", parts=tuple(parts))


def _by_layer(layers: Sequence[LayerReport], measured: Sequence[LayerReport]) -> str:
    place = {layer.name: number for number, layer in enumerate(layers, 1)}
    ratios = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": [place[layer.name] for layer in measured],
        "y": [round(float(layer.snr_db or 0), 3) for layer in measured],
        "text": [layer.name for layer in measured],
        "hovertemplate": "%{text}: %{y} dB<extra></extra>",
    }
    return figure([ratios], name="layers", x="layer", y="signal to noise, dB")


def _coverage(report: Report) -> Section:
    rows = [[str(count), reason] for reason, count in report.coverage["reasons"].items()]
    parts = (
        table(("layers", "in float because"), rows, right=("layers",))
        if rows
        else paragraph("Every layer is computed in integers."),
    )
    return Section(title="Coverage", parts=parts)


def _ranges(ranges: CalibrationTable) -> Section:
    numbers = ("least seen", "most seen", "low", "high", "scale", "zero point", "not finite")
    header = ("tensor", "scheme", *numbers, "method", "notes")
    rows = []
    for name, entry in ranges.entries.items():
        params = entry.qparams()
        seen = ("-", "-") if entry.observed.empty else (entry.observed.low, entry.observed.high)
        values = (*seen, entry.low, entry.high, params.scale)
        rows.append(
            [
                name,
                entry.scheme,
                *(value if isinstance(value, str) else f"{value:.6g}" for value in values),
                str(params.zero_point),
                str(entry.observed.nonfinite),
                entry.method,
                "; ".join(entry.notes),
            ]
        )
    text = f"What {ranges.images} images showed of each tensor, and the range that was chosen."
    return Section(
        title="Ranges", parts=(paragraph(text), sortable_table(header, rows, right=numbers))
    )


def _activations(ranges: CalibrationTable, others: Alternatives) -> Section:
    title = "Activations"
    if not others:
        text = "The calibration table holds no counts: no histograms, and no other methods' ranges."
        return Section(title=title, parts=(paragraph(text),))
    figures = (
        Axes(
            name="histogram", x="value", y="count", layout={"yaxis": {"type": "log"}, "bargap": 0}
        ),
        Axes(name="divergence", x="threshold", y="KL(P || Q)", layout={"yaxis": {"type": "log"}}),
    )
    choices = {
        name: (_histogram_traces(ranges.entries[name], found), _curve_traces(ranges.entries[name]))
        for name, found in others.items()
    }
    text = (
        "Vertical lines are ends of ranges: the chosen one, and those of other methods from the "
        "same counts, of |x| where the range is symmetric. Values beyond saturate. A click on the "
        "legend hides a method. Below, the divergence that the search kl-tensorrt makes least, "
        "whatever method chose; it is empty for asymmetric tensors, whose two ends it takes apart."
    )
    return Section(title=title, parts=(paragraph(text), chooser(figures, choices)))


def _histogram_traces(entry: Entry, others: Mapping[str, Entry]) -> Traces:
    histogram = entry.histogram
    assert histogram is not None
    middles, counts = _bars(histogram)
    top = float(counts.max(initial=1))
    bars = {"type": "bar", "name": "values", "x": _short(middles), "y": counts.tolist()}
    return [
        {**bars, "marker": {"color": "#9db8d2"}},
        _line(entry, histogram, top, f"chosen: {entry.method}", width=4),
        *(_line(other, histogram, top, name) for name, other in others.items()),
    ]


def _bars(histogram: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles and counts of at most ``BARS`` bars; the last may be cut short."""
    grid = histogram.grid
    group = -(-grid.bins // BARS)
    starts = np.arange(0, grid.bins, group)
    ends = np.minimum(starts + group, grid.bins)
    middles = float(grid.low) + (starts + ends) / 2 * float(grid.width)
    return middles, np.add.reduceat(histogram.counts, starts)


def _line(
    entry: Entry, histogram: Histogram, top: float, name: str, width: int = 2
) -> dict[str, Any]:
    """Return vertical lines at the ends of a range; at one end where ``|x|`` was counted."""
    ends = [entry.high] if histogram.grid.absolute else [entry.low, entry.high]
    x = [at for end in ends for at in (float(f"{end:.6g}"), float(f"{end:.6g}"), None)]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} ({', '.join(f'{end:.4g}' for end in ends)})",
        "x": x,
        "y": [0.5, top, None] * len(ends),
        "line": {"width": width},
    }


def _curve_traces(entry: Entry) -> Traces:
    assert entry.histogram is not None
    thresholds, found = divergence_curve(entry.histogram)
    if not len(found):
        return [{"type": "scatter", "x": [], "y": [], "name": "KL"}]
    drawn = np.unique([*np.linspace(0, len(found) - 1, POINTS).astype(int), int(found.argmin())])
    x, y = _short(thresholds[drawn]), _short(np.maximum(found[drawn], 0))
    at = float(f"{entry.high:.6g}")
    return [
        {"type": "scatter", "mode": "lines", "name": "KL", "x": x, "y": y},
        {
            "type": "scatter",
            "mode": "lines",
            "name": "chosen",
            "x": [at, at],
            "y": [min(value for value in y if value > 0), max(y)] if any(y) else [0, 0],
        },
    ]


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def _methods(ranges: CalibrationTable, others: Alternatives) -> list[Section]:
    """Return a section of the upper ends that each method would have chosen."""
    names = list(dict.fromkeys(name for found in others.values() for name in found))
    if not names:
        return []
    rows = []
    for tensor, found in others.items():
        highs = [f"{found[name].high:.6g}" if name in found else "-" for name in names]
        rows.append([tensor, f"{ranges.entries[tensor].high:.6g}", *highs])
    text = (
        "The upper end of each tensor's range by each method that counts over the same bins; the "
        "others would need a calibration of their own."
    )
    header = ("tensor", "chosen", *names)
    parts = (paragraph(text), sortable_table(header, rows, right=header[1:]))
    return [Section(title="Methods", parts=parts)]


def _settings(report: Report) -> Section:
    rows = [[key, _text(value)] for key, value in report.settings.items()]
    if report.tuning:
        tuned, default = report.tuning["tuned"], report.tuning["default"]
        rows.append(["kernels", f"{tuned} run as tuned, {default} by default"])
        rows += [
            ["records refused", f"{at}: {why}"] for at, why in report.tuning["refused"].items()
        ]
    rows += [[title, text] for title, text in gpu_rows(report.gpu)]
    rows += [["layout changes", _text(report.repacks)]] if report.repacks else []
    rows += [[f"time of {name}", f"{us:.1f} us"] for name, us in report.other_us.items()]
    rows += [[f"time to {stage}", f"{seconds:.1f} s"] for stage, seconds in report.seconds.items()]
    return Section(title="Settings", parts=(table(("setting", "value"), rows),))


def _text(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text or "-"
