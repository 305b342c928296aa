"""The figures of a report: each by name, for its page and for pictures.

``layers`` shows what quantizing cost layer by layer; ``histogram``, ``integers`` and ``divergence``
show one tensor whose counts were kept: its values before quantizing, with the ends of ranges; what
they become; and the divergence that the search kl-tensorrt makes least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relay_int8.calibration.alternatives import divergence_curve
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.predicted import integer_counts
from relay_int8.report.contents import LayerReport, Report
from relay_int8.report.pages.interactive import Axes, Traces

BARS = 256  # greatest number of bars of a histogram; neighbouring bins are added up
POINTS = 240  # greatest number of points of a divergence curve
_LOG: dict[str, Any] = {"yaxis": {"type": "log"}}
LAYERS = Axes(name="layers", x="layer", y="signal to noise, dB")
TENSOR = (
    Axes(name="histogram", x="value", y="count", layout={**_LOG, "bargap": 0}),
    Axes(name="integers", x="integer", y="count", layout={**_LOG, "bargap": 0}),
    Axes(name="divergence", x="threshold", y="KL(P || Q)", layout=_LOG),
)


def layer_traces(report: Report) -> Traces:
    """Return the signal-to-noise ratios of all layers; nothing where none was measured."""
    kinds = {
        "result of the layer": [layer.snr_db for layer in report.layers],
        "outputs, it alone in integers": [layer.alone_db for layer in report.layers],
        "outputs, it alone in float": [layer.without_db for layer in report.layers],
    }
    return [
        trace for name, ratios in kinds.items() if (trace := _ratios(name, report.layers, ratios))
    ]


def _ratios(
    name: str, layers: Sequence[LayerReport], ratios: Sequence[float | None]
) -> dict[str, Any] | None:
    known = [
        (number, layer.name, round(ratio, 3))
        for number, (layer, ratio) in enumerate(zip(layers, ratios, strict=True), 1)
        if ratio is not None and np.isfinite(ratio)
    ]
    if not known:
        return None
    numbers, names, values = zip(*known, strict=True)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(numbers),
        "y": list(values),
        "text": list(names),
        "hovertemplate": "%{text}: %{y} dB",
    }


def tensor_traces(entry: Entry, others: Mapping[str, Entry]) -> tuple[Traces, Traces, Traces]:
    """Return the traces of ``TENSOR``; ``others`` are the entries by other methods."""
    histogram = entry.histogram
    assert histogram is not None
    return _values(entry, histogram, others), _integers(entry, histogram), _curve(entry, histogram)


def _values(entry: Entry, histogram: Histogram, others: Mapping[str, Entry]) -> Traces:
    middles, counts = _bars(histogram)
    top = float(counts.max(initial=1))
    return [
        _bar("values", _short(middles), counts.tolist()),
        _line(entry, histogram, top, f"chosen: {entry.method}", width=4),
        *(_line(other, histogram, top, name) for name, other in others.items()),
    ]


def _integers(entry: Entry, histogram: Histogram) -> Traces:
    integers, counts = integer_counts(histogram, entry.qparams())
    return [_bar("integers", integers.tolist(), counts.tolist())]


def _curve(entry: Entry, histogram: Histogram) -> Traces:
    thresholds, divergence = divergence_curve(histogram)
    if not len(divergence):
        return [{"type": "scatter", "mode": "lines", "x": [], "y": [], "name": "KL"}]
    drawn = np.unique(
        [*np.linspace(0, len(divergence) - 1, POINTS).astype(int), int(divergence.argmin())]
    )
    x, y = _short(thresholds[drawn]), _short(np.maximum(divergence[drawn], 0))
    at = float(f"{entry.high:.6g}")
    ends = [min(value for value in y if value > 0), max(y)] if any(y) else [0, 0]
    return [
        {"type": "scatter", "mode": "lines", "name": "KL", "x": x, "y": y},
        {"type": "scatter", "mode": "lines", "name": "chosen", "x": [at, at], "y": ends},
    ]


def _bars(histogram: Histogram) -> tuple[np.ndarray, np.ndarray]:
    """Return the middles and counts of at most ``BARS`` bars; the last may be cut short."""
    grid = histogram.grid
    group = -(-grid.bins // BARS)
    starts = np.arange(0, grid.bins, group)
    ends = np.minimum(starts + group, grid.bins)
    middles = float(grid.low) + (starts + ends) / 2 * float(grid.width)
    return middles, np.add.reduceat(histogram.counts, starts)


def _bar(name: str, x: list[float], y: list[int]) -> dict[str, Any]:
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": {"color": "#9db8d2"}}


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


def _short(values: np.ndarray) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
