"""The verdict that begins a report page: speed, accuracy, worst layers, what is in float."""

from __future__ import annotations

from relay_int8.report.contents import INT16_SATURATION, LayerReport, Report
from relay_int8.report.reasons import first_names
from relay_int8.report.wording import decibels

WORST = 3  # layers that are named


def verdict(report: Report) -> dict[str, str]:
    """Return title -> sentence, of what is known; the most important first."""
    sentences = {
        "Speed": _speed(report),
        "Accuracy": _accuracy(report),
        "Worst layers": _worst(report),
        "In float": _floats(report),
        "To look at": _hazards(report),
    }
    return {title: text for title, text in sentences.items() if text}


def _speed(report: Report) -> str:
    """Say how fast it is, against FP32 where that was timed beside it."""
    int8_ms, float_ms = (report.latency_ms.get(name) for name in ("int8", "float32"))
    if not int8_ms:
        return ""
    threads = report.machine.get("threads")
    where = f" (batch {report.machine.get('batch', 1)}, {threads} threads)" if threads else ""
    text = f"{int8_ms:.3f} ms{where}"
    if float_ms is None:
        return f"{text}; FP32 was not timed beside it"
    ratio = f"{float_ms / int8_ms:.2f} times as fast as FP32 by the same compiler"
    return f"{text}, {ratio} ({float_ms:.3f} ms){_before(report)}"


def _before(report: Report) -> str:
    """Say against what a file that was quantized already is compared."""
    if report.settings.get("scales") != "of the model":
        return ""
    return "; the file was quantized already, and FP32 is what it stands for"


def _accuracy(report: Report) -> str:
    """Say what was measured of the outputs, and on which images."""
    parts = []
    evaluation = report.evaluation
    if evaluation is not None:
        if evaluation.top1 is not None:
            reference = evaluation.reference_top1
            fp32 = "" if reference is None else f" (FP32 {reference:.4f})"
            parts.append(f"top-1 {evaluation.top1:.4f}{fp32}")
        if evaluation.agreement is not None:
            parts.append(f"same class as FP32 {evaluation.agreement:.4f}")
        parts = [f"{', '.join(parts)} on {evaluation.samples} images"] if parts else []
    known = [output for output in report.outputs if output.snr_db is not None]
    if known:
        least = min(known, key=lambda output: output.snr_db or 0.0)
        parts.append(
            f"{least.title}: signal to noise {decibels(least.snr_db)} dB on "
            f"{report.compared_images}"
        )
    if known and evaluation is None and report.settings.get("calibration images"):
        parts.append("images that were held out say more (evaluate)")
    return "; ".join(parts)


def _worst(report: Report) -> str:
    """Name the layers that are furthest from FP32."""
    known = [layer for layer in report.layers if layer.snr_db is not None and layer.integer]
    worst = sorted(known, key=_ratio)[:WORST]
    return ", ".join(f"{layer.name} ({decibels(layer.snr_db)} dB)" for layer in worst)


def _ratio(layer: LayerReport) -> float:
    return float("inf") if layer.snr_db is None else layer.snr_db


def _floats(report: Report) -> str:
    """Say which layers are float ones, and why."""
    if not report.layers:
        return ""
    if not report.floats:
        return f"none of {len(report.layers)} layers"
    reasons = [f"{first_names(names)}: {reason}" for reason, names in report.floats.items()]
    coverage = report.coverage
    macs = coverage["int8_macs"] + coverage["float_macs"]
    share = f", {coverage['float_macs'] / macs:.2%} of the multiplications" if macs else ""
    count = f"{coverage['float_layers']} of {len(report.layers)} layers{share}"
    return f"{count} ({'; '.join(reasons)})"


def _hazards(report: Report) -> str:
    kinds: dict[str, int] = {}
    for hazard in report.hazards:
        if hazard.kind != INT16_SATURATION:
            kinds[hazard.kind] = kinds.get(hazard.kind, 0) + 1
    return ", ".join(f"{kind} ({count})" for kind, count in kinds.items())
