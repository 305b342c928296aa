"""A report for people: tables on a terminal, plain columns in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from relay_int8.analysis.accuracy import Evaluation
from relay_int8.analysis.report import LayerReport, Report

PLAIN_WIDTH = 160  # columns where nobody has said how wide the paper is


def terminal() -> Console:
    """Return the console of standard output; in a pipe, without colour and of a fixed width.

    Text is printed as it is: brackets in the names of tensors are no markup.
    """
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return Console(highlight=False, markup=False, emoji=False, width=width)


def show(console: Console, title: str, rows: Table) -> None:
    """Print a table under its title; a title that is wider than the table stays on one line."""
    console.print(title, style="bold", soft_wrap=True)
    console.print(rows)


def table(console: Console, *columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table; rules only on a terminal, ``right`` columns flush right."""
    result = Table(
        box=Table("").box if console.is_terminal else None,
        pad_edge=console.is_terminal,
    )
    for column in columns:
        result.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return result


def print_summary(report: Report, console: Console, *, layers: bool = True) -> None:
    """Print what became of each layer, then the totals; ``layers=False`` leaves out the first."""
    if layers and report.layers:
        show(console, "Layers", _layer_table(report, console))
        console.print()
    show(console, f"{report.model} ({report.digest[:12]})", _totals_table(report, console))
    reasons = report.coverage["reasons"]
    if reasons:
        console.print()
        rows = table(console, "Layers", "Reason", right=("Layers",))
        for reason, count in reasons.items():
            rows.add_row(str(count), reason)
        show(console, "In float, and why", rows)
    if report.hazards:
        console.print()
        rows = table(console, "Hazard", "Where", "What")
        for hazard in report.hazards:
            rows.add_row(hazard.kind, hazard.name or "-", hazard.message)
        show(console, "Hazards", rows)


def _layer_table(report: Report, console: Console) -> Table:
    numbers = ("MMAC", "SNR dB", "saturated", "us")
    rows = table(console, "Layer", "Operator", "Type", "Kernel", *numbers, right=numbers)
    for layer in report.layers:
        rows.add_row(
            layer.name,
            layer.kind,
            "int8" if layer.integer else "float",
            layer.kernel or "-",
            *_numbers(layer),
        )
    return rows


def _numbers(layer: LayerReport) -> tuple[str, str, str, str]:
    """Return a layer's measurements as text; what was not measured is a dash."""
    return (
        f"{layer.macs / 1e6:.2f}" if layer.macs else "-",
        decibels(layer.snr_db),
        "-" if layer.saturation is None else f"{layer.saturation:.3%}",
        "-" if layer.time_us is None else f"{layer.time_us:.0f}",
    )


def decibels(ratio: float | None) -> str:
    """Return a signal-to-noise ratio as text: one decimal, "exact" where nothing differs."""
    if ratio is None:
        return "-"
    return "exact" if ratio == float("inf") else f"{ratio:.1f}"


def shares(evaluation: Evaluation, share: float | None) -> tuple[str, str]:
    """Return a fraction of the evaluation's images and its 95 % interval as text."""
    if share is None:
        return "-", "-"
    low, high = evaluation.interval(share)
    return f"{share:.4f}", f"{low:.4f} to {high:.4f}"


def _totals_table(report: Report, console: Console) -> Table:
    coverage = report.coverage
    rows = table(console, "", "")
    rows.show_header = False
    all_layers = coverage["int8_layers"] + coverage["float_layers"]
    all_macs = coverage["int8_macs"] + coverage["float_macs"]
    share = f", {coverage['int8_macs'] / all_macs:.2%} of the MACs" if all_macs else ""
    rows.add_row("integer layers", f"{coverage['int8_layers']} of {all_layers}{share}")
    for output in report.outputs:
        rows.add_row(
            f"output {output.name}",
            f"SNR {decibels(output.snr_db)} dB, largest error {output.max_error:.4g} "
            f"({report.samples} samples)",
        )
    if report.repacks:
        rows.add_row("layout changes", f"{len(report.repacks)}: {', '.join(report.repacks)}")
    if report.tuning:
        tuned, default = report.tuning["tuned"], report.tuning["default"]
        rows.add_row("kernels", f"{tuned} run as tuned, {default} by default")
        for where, why in report.tuning["refused"].items():
            rows.add_row("records refused", f"{where}: {why}")
    for title, text in gpu_rows(report.gpu):
        rows.add_row(title, text)
    if report.other_us:
        rows.add_row(
            "other kernels", f"{len(report.other_us)}, {sum(report.other_us.values()):.0f} us"
        )
    if report.artifact_bytes:
        rows.add_row("size", _sizes(report))
    for name, latency_ms in report.latency_ms.items():
        rows.add_row(f"latency {name}", f"{latency_ms:.3f} ms")
    for key, value in {**report.settings, **report.machine}.items():
        text = ", ".join(value) if isinstance(value, list | tuple) else str(value)
        rows.add_row(key, text or "-")
    for stage, seconds in report.seconds.items():
        rows.add_row(f"time to {stage}", f"{seconds:.1f} s")
    return rows


def gpu_rows(gpu: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what there is to say of code for GPUs, as title and text."""
    if not gpu:
        return []
    needs, graph = gpu["needs"], gpu["graph"]
    usage = [use for kernel in gpu["kernels"].values() for use in kernel["usage"].values()]
    spilling = [
        name
        for name, kernel in gpu["kernels"].items()
        if any(use["spilled_bytes"] for use in kernel["usage"].values())
    ]
    most = max((use["registers"] for use in usage), default=0)
    together, every = len(graph["captured"]), len(graph["captured"] + graph["launched"])
    replayed = f"{together} of {every} launches are one" if together else "none"
    oldest = needs["architectures"][0]
    return [
        ("GPUs", f"{', '.join(needs['architectures'])}, newer ones by PTX {needs['ptx_version']}"),
        ("kernels chosen for", f"{oldest}, the oldest of them"),
        ("driver", f"for CUDA {needs['driver']} or newer"),
        ("GPU memory", f"{needs['memory_bytes'] / 1e6:.1f} MB and what CUDA itself takes"),
        ("CUDA graph", replayed),
        ("registers", f"at most {most} a thread, spilled: {', '.join(spilling) or 'none'}"),
    ]


def _sizes(report: Report) -> str:
    source = f" (model file {report.model_bytes / 1e6:.2f} MB)" if report.model_bytes else ""
    return f"{report.artifact_bytes / 1e6:.2f} MB{source}"
