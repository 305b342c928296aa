"""What a report's page says of tensors: ranges, figures of their values, methods side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from relay_int8.calibration.alternatives import alternatives
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.predicted import cut_share, predicted_snr_db
from relay_int8.calibration.table import CalibrationTable
from relay_int8.report.figures import TENSOR, tensor_traces
from relay_int8.report.pages.interactive import chooser, sortable_table
from relay_int8.report.pages.page import Section, paragraph, table
from relay_int8.report.wording import decibels

Alternatives = Mapping[str, Mapping[str, Entry]]


def tensor_sections(ranges: CalibrationTable) -> list[Section]:
    """Return the sections of a calibration table; none of an empty one."""
    if not ranges.entries:
        return []
    others = {name: alternatives(entry) for name, entry in ranges.entries.items()}
    others = {name: candidates for name, candidates in others.items() if candidates}
    if not others:
        text = "The calibration table holds no counts: no histograms, and no other methods' ranges."
        return [_ranges(ranges), Section(title="Activations", parts=(paragraph(text),))]
    return [_ranges(ranges), _activations(ranges, others), _methods(ranges, others)]


def _ranges(ranges: CalibrationTable) -> Section:
    numbers = ("least seen", "most seen", "low", "high", "scale", "zero point")
    counted = ("cut off %", "SNR dB", "not finite")
    header = ("tensor", "scheme", *numbers, *counted, "method", "notes")
    rows = []
    for name, entry in ranges.entries.items():
        params, seen = entry.qparams(), entry.observed
        ends = ("-", "-") if seen.empty else (f"{seen.low:.6g}", f"{seen.high:.6g}")
        values = (f"{value:.6g}" for value in (entry.low, entry.high, params.scale))
        last = (str(seen.nonfinite), entry.method, "; ".join(entry.notes))
        zero = str(params.zero_point)
        rows.append([name, entry.scheme, *ends, *values, zero, *_counted(entry), *last])
    text = (
        f"What {ranges.images} images showed of each tensor, and the range that was chosen. By its "
        "counts: the share of the values beyond the range, and their power over that of the error "
        "of rounding and saturation."
    )
    right = (*numbers, *counted)
    return Section(
        title="Ranges", parts=(paragraph(text), sortable_table(header, rows, right=right))
    )


def _counted(entry: Entry) -> tuple[str, str]:
    """Return share cut off and signal to noise, where there are counts."""
    histogram, params = entry.histogram, entry.qparams()
    if histogram is None:
        return "-", "-"
    cut = f"{100 * cut_share(histogram, params):.4f}"
    return cut, decibels(predicted_snr_db(histogram, params))


def _activations(ranges: CalibrationTable, others: Alternatives) -> Section:
    choices = {
        name: tensor_traces(ranges.entries[name], candidates) for name, candidates in others.items()
    }
    text = (
        "Before: values in float. Vertical lines are ends of ranges, the chosen one and those of "
        "other methods from the same counts, of |x| where the range is symmetric; values beyond "
        "saturate. A click on the legend hides a method. After: the integers that the values "
        "become, saturated ones at the end. Below, the divergence that kl-tensorrt makes least, "
        "whatever method chose; it is empty for asymmetric tensors, whose two ends it takes apart."
    )
    return Section(title="Activations", parts=(paragraph(text), chooser(TENSOR, choices)))


def _methods(ranges: CalibrationTable, others: Alternatives) -> Section:
    """Return what each method would have chosen, and how well that would code the values."""
    names = list(dict.fromkeys(name for candidates in others.values() for name in candidates))
    ratios = {
        tensor: {
            name: ratio
            for name, entry in {"chosen": ranges.entries[tensor], **candidates}.items()
            if (ratio := _snr_db(ranges.entries[tensor], entry)) is not None
        }
        for tensor, candidates in others.items()
    }
    means = [_mean(name, ratios, len(others)) for name in ("chosen", *names)]
    entries = {
        name: {"chosen": ranges.entries[name], **candidates} for name, candidates in others.items()
    }
    numbers = ("mean SNR dB", "chosen, these tensors", "least SNR dB", "tensors")
    parts = (
        paragraph(
            "How well the ranges of each method would code the values of the tensors that it was "
            "asked for, by their counts; methods that count over other bins, or leave zeros out "
            "where they were not counted apart, would need a calibration of their own. Not every "
            "method was asked for every tensor: beside its mean stands that of the chosen ranges "
            "over the same tensors. What the network makes of it is another question."
        ),
        table(("method", *numbers), means, right=numbers),
        paragraph("Signal to noise of each tensor, dB:"),
        _by_method(names, ratios, decibels),
        paragraph("The upper end of each tensor's range:"),
        _by_method(
            names,
            {
                tensor: {k: float(e.high) for k, e in by_method.items()}
                for tensor, by_method in entries.items()
            },
            lambda value: f"{value:.6g}",
        ),
    )
    return Section(title="Methods", parts=parts)


def _snr_db(counted: Entry, chosen: Entry) -> float | None:
    assert counted.histogram is not None
    return predicted_snr_db(counted.histogram, chosen.qparams())


def _mean(name: str, ratios: Mapping[str, Mapping[str, float]], tensors: int) -> list[str]:
    """Return a method's row: its mean beside that of the chosen ranges over the same tensors."""
    pairs = [
        (by_name[name], by_name["chosen"])
        for by_name in ratios.values()
        if {name, "chosen"} <= by_name.keys()
    ]
    finite = [pair for pair in pairs if np.isfinite(pair).all()]
    if not finite:
        return [name, "-", "-", "-", f"0 of {tensors}"]
    mean, chosen = np.mean(finite, axis=0)
    least = min(ratio for ratio, _ in finite)
    return [name, f"{mean:.2f}", f"{chosen:.2f}", f"{least:.2f}", f"{len(finite)} of {tensors}"]


def _by_method(
    names: list[str],
    values: Mapping[str, Mapping[str, float]],
    text: Callable[[float], str],
) -> str:
    header = ("tensor", "chosen", *names)
    rows = [
        [tensor, *(text(by_method[name]) if name in by_method else "-" for name in header[1:])]
        for tensor, by_method in values.items()
    ]
    return sortable_table(header, rows, right=header[1:])
