"""The report of a network as tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from relay_int8.cli.terminal import show, table
from relay_int8.report.contents import Hazard, LayerReport, Report
from relay_int8.report.reasons import first_names
from relay_int8.report.wording import decibels, demand_rows, gpu_rows


def print_summary(report: Report, console: Console, *, layers: bool = True) -> None:
    """Print what became of each layer, then the totals; ``layers=False`` leaves out the first."""
    if layers and report.layers:
        show(console, "Layers", _layer_table(report, console))
        console.print()
    digest = f" ({report.digest[:12]})" if report.digest else ""  # a preview has none
    show(console, f"{report.model}{digest}", _totals_table(report, console))
    if report.floats:
        console.print()
        rows = table(console, "Layers", "Reason", "Which", right=("Layers",))
        for reason, names in report.floats.items():
            rows.add_row(str(len(names)), reason, first_names(names))
        show(console, "In float, and why", rows)
    print_hazards(report.hazards, console)


def print_declined(report: Report, console: Console) -> None:
    """Print what rewrites of the compiler left alone, and why; nothing where there is none."""
    if not report.declined:
        return
    console.print()
    rows = table(console, "Tensor", "Why")
    for declined in report.declined:
        rows.add_row(declined.name, declined.reason)
    show(console, "Left alone by rewrites, and why", rows)


def print_hazards(hazards: Sequence[Hazard], console: Console) -> None:
    """Print a table of hazards; nothing where there are none."""
    if not hazards:
        return
    console.print()
    rows = table(console, "Hazard", "Where", "What")
    for hazard in hazards:
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


def _totals_table(report: Report, console: Console) -> Table:
    coverage = report.coverage
    rows = table(console, "", "")
    rows.show_header = False
    all_layers = coverage["int8_layers"] + coverage["float_layers"]
    all_macs = coverage["int8_macs"] + coverage["float_macs"]
    share = f", {coverage['int8_macs'] / all_macs:.2%} of the MACs" if all_macs else ""
    rows.add_row("integer layers", f"{coverage['int8_layers']} of {all_layers}{share}")
    for title, text in demand_rows(report.demand):
        rows.add_row(title, text)
    for output in report.outputs:
        rows.add_row(
            output.title,
            f"SNR {decibels(output.snr_db)} dB, largest error {output.max_error:.4g} "
            f"(on {report.compared_images})",
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


def _sizes(report: Report) -> str:
    source = f" (model file {report.model_bytes / 1e6:.2f} MB)" if report.model_bytes else ""
    return f"{report.artifact_bytes / 1e6:.2f} MB{source}"
