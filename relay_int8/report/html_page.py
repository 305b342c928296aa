"""A report as an HTML page: what became of each layer, and where each tensor's range was cut.

Everything is made from the report and the calibration table. Histograms, and what other methods
would have chosen, are there for tensors whose counts the table holds.
"""

from __future__ import annotations

from pathlib import Path

from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import RecordError
from relay_int8.messages import unreadable
from relay_int8.report.contents import Report
from relay_int8.report.figures import LAYERS, layer_traces
from relay_int8.report.pages.interactive import SCRIPT, sortable_table
from relay_int8.report.pages.page import (
    Section,
    figure,
    paragraph,
    require_plotly,
    table,
    write_page,
)
from relay_int8.report.reasons import first_names
from relay_int8.report.tensor_sections import tensor_sections
from relay_int8.report.verdict import verdict
from relay_int8.report.wording import decibels, demand_rows, gpu_rows, shares


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
    sections = [
        *_hazards(report, ranges),
        *_accuracy(report),
        _layers(report),
        _coverage(report),
        *tensor_sections(ranges),
        _settings(report),
    ]
    sections[-1] = Section(title=sections[-1].title, parts=(*sections[-1].parts, SCRIPT))
    try:
        write_page(path, f"{report.model} in integers", _facts(report), sections, verdict(report))
    except OSError as error:
        raise RecordError(
            f"{path}: cannot be written: {unreadable(error)}; name another file"
        ) from error


def _facts(report: Report) -> dict[str, str]:
    coverage = report.coverage
    layers = coverage["int8_layers"] + coverage["float_layers"]
    macs = coverage["int8_macs"] + coverage["float_macs"]
    share = f", {coverage['int8_macs'] / macs:.2%} of the multiplications" if macs else ""
    outputs = {
        output.title[0].upper() + output.title[1:]: "signal to noise "
        f"{decibels(output.snr_db)} dB, largest error "
        f"{output.max_error:.4g}, over {report.compared_images}"
        for output in report.outputs
    }
    sizes = {"Model file": report.model_bytes, "Artifact": report.artifact_bytes}
    return {
        "Quantized model": report.digest,
        "Layers in integers": f"{coverage['int8_layers']} of {layers}{share}",
        **{title.capitalize(): text for title, text in demand_rows(report.demand)},
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


def _accuracy(report: Report) -> list[Section]:
    """Return a section of the accuracy, if it was measured."""
    evaluation = report.evaluation
    if evaluation is None:
        return []
    columns = ("int8", "95 %", "FP32", "FP32, 95 %")
    rows = []
    if evaluation.top1 is not None:
        rows.append(
            [
                "top-1",
                *shares(evaluation, evaluation.top1),
                *shares(evaluation, evaluation.reference_top1),
            ]
        )
    if evaluation.agreement is not None:
        rows.append(["same class as FP32", *shares(evaluation, evaluation.agreement), "", ""])
        rows.append(["signal to noise, dB", decibels(evaluation.snr_db), "", "", ""])
    text = (
        f"On {evaluation.samples} images. 95 %: Wilson's interval, in which the share of all such "
        "images lies; two networks whose intervals overlap may be equally good."
    )
    parts = (paragraph(text), table(("", *columns), rows, right=columns))
    return [Section(title="Accuracy", parts=parts)]


def _layers(report: Report) -> Section:
    numbers = ("place", "MMAC", "SNR dB", "saturated %", "alone dB", "without dB", "time us")
    header = ("place", "layer", "operator", "type", *numbers[1:], "kernel", "reason")
    rows = [
        [
            str(number),
            layer.name,
            layer.kind,
            "int8" if layer.integer else "float",
            f"{layer.macs / 1e6:.3f}" if layer.macs else "",
            decibels(layer.snr_db),
            "-" if layer.saturation is None else f"{100 * layer.saturation:.4f}",
            decibels(layer.alone_db),
            decibels(layer.without_db),
            "-" if layer.time_us is None else f"{layer.time_us:.1f}",
            layer.kernel,
            layer.reason,
        ]
        for number, layer in enumerate(report.layers, 1)
    ]
    text = (
        "Signal to noise: the power of the FP32 result over that of the error, with every layer "
        "before it quantized too. Saturated: integers at an end of their range. Alone, without: "
        "signal to noise of the network's outputs with this layer alone in integers, and with it "
        "alone left in float, where sensitivity was measured."
    )
    parts = [paragraph(text), sortable_table(header, rows, right=numbers)]
    traces = layer_traces(report)
    if traces:
        parts.insert(1, figure(traces, name=LAYERS.name, x=LAYERS.x, y=LAYERS.y))
    return Section(title="Layers", parts=tuple(parts))


def _coverage(report: Report) -> Section:
    rows = [
        [str(len(names)), reason, first_names(names)] for reason, names in report.floats.items()
    ]
    parts = (
        table(("layers", "in float because", "which"), rows, right=("layers",))
        if rows
        else paragraph("Every layer is computed in integers."),
    )
    return Section(title="Coverage", parts=parts)


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
