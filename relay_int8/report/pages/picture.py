"""One figure as a PNG picture, of the same traces as on a page; drawn by Matplotlib, no browser."""

from __future__ import annotations

import importlib
import io
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic
from relay_int8.messages import unreadable
from relay_int8.report.pages.interactive import Axes, Traces

INCHES, DOTS_PER_INCH = (10.0, 5.0), 120


def write_picture(path: Path | str, title: str, axes: Axes, traces: Traces) -> None:
    """Write a figure of 1200 x 600 pixels, whole or not at all.

    Parameters
    ----------
    path
        A name that ends in ``.png``.
    title
        What stands above it.
    axes, traces
        As :func:`relay_int8.report.pages.interactive.chooser` takes them: bars and lines.

    Raises
    ------
    ConfigError
        If the name is another one, Matplotlib is not installed, or the file cannot be written.
    """
    if Path(path).suffix.lower() != ".png":
        raise ConfigError(f"{path}: pictures are PNG; name it .png")
    drawing = _figure_class()(figsize=INCHES, dpi=DOTS_PER_INCH, layout="constrained")
    plot = drawing.subplots()
    for trace in traces:
        _draw(plot, trace)
    plot.set(title=title, xlabel=axes.x, ylabel=axes.y)
    plot.set_yscale(axes.layout.get("yaxis", {}).get("type", "linear"))
    if len(traces) > 1:
        plot.legend(fontsize="small")
    stream = io.BytesIO()
    drawing.savefig(stream, format="png")
    try:
        write_atomic(Path(path), stream.getvalue())
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written: {unreadable(error)}; name another file"
        ) from error


def _draw(plot: Any, trace: Mapping[str, Any]) -> None:
    x, y = ([math.nan if at is None else at for at in trace[axis]] for axis in ("x", "y"))
    if trace["type"] == "bar":
        width = min((b - a for a, b in pairwise(x)), default=1.0)
        color = trace["marker"]["color"]
        plot.bar(x, y, width=width, label=trace["name"], color=color)
    else:
        marker = "." if "markers" in trace["mode"] else None
        width = trace.get("line", {}).get("width", 2) / 2
        plot.plot(x, y, label=trace["name"], marker=marker, linewidth=width)


def _figure_class() -> Any:
    try:
        return importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise ConfigError("pictures need Matplotlib; pip install 'relay-int8[pages]'") from error
