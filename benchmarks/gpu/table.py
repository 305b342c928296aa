"""The tables of a run on a GPU, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu.measurement import GpuMeasurement
from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.roofline import Layer
from benchmarks.gpu.systems import OWN, SYSTEMS

EXPLANATION = """\
"ms" is the device's time for one run of the whole batch: events around runs that are enqueued back
to back, inputs and outputs in the GPU's memory, no copies from or to the host; the median of the
turns. "alone" is the host's time for one run that is waited for: launch, run, waiting. "x" is how
many times longer a system takes than "int8 here", the median of the ratio within each round: above
1 this project is faster. "peak" is the share of the measured rate of the unit that the network's
kernels multiply by, counting products inside the image. PyTorch computes the same float graph,
batch norms folded into convolutions; float32 convolutions may use TF32, its default."""
LAYERS = """\
Each kernel by itself, in a CUDA graph of twenty of it: its data may lie in the L2 cache. "bound" is
what would take longest at the measured peaks: the products of its unit, its bytes (every argument
read once, the result written once) at the rate of a copy within memory, or the launch of a kernel
that does nothing; "of bound" is that time over the measured one."""


def markdown(
    cells: Sequence[GpuMeasurement], facts: Mapping[str, Any], measured: Peaks, sheet: Peaks
) -> str:
    """Return everything that was measured."""
    lines = ["# int8 on a GPU", "", *_networks(cells), EXPLANATION, ""]
    lines += [f"- {line}" for line in (*_verdicts(cells), *_failures(cells))]
    lines += ["", "## Peaks", "", *_peaks(measured, sheet), ""]
    for cell in cells:
        if cell.layers:
            lines += [f"## {cell.network}, batch {cell.batch}, kernel by kernel", ""]
            lines += [*_layers(cell), "", *_bounds(cell), ""]
    if any(cell.layers for cell in cells):
        lines += [LAYERS, ""]
    lines += ["## Where", "", *(f"- {key}: {value}" for key, value in facts.items())]
    return "\n".join(lines) + "\n"


def summary(cell: GpuMeasurement) -> str:
    """Return the median of every system in one line."""
    times = (f"{SYSTEMS[key].name} {1e3 * cell.median_s(key):.3f} ms" for key in cell.turns)
    verdict = "WRONG" if cell.wrong else "bits right"
    return f"{cell.network}, batch {cell.batch}: {verdict}; {', '.join(times)}"


def _networks(cells: Sequence[GpuMeasurement]) -> Iterator[str]:
    keys = [key for key in SYSTEMS if any(key in cell.turns for cell in cells)]
    columns = ["network", "batch"]
    for key in keys:
        columns += [f"{SYSTEMS[key].name} ms", "alone", *(["x"] if key != OWN else ["peak"])]
    yield from _head(columns, left=1)
    for cell in cells:
        row = [cell.network, str(cell.batch)]
        for key in keys:
            if key not in cell.turns:
                row += ["-"] * 3
                continue
            last = _share(cell.share_of_peak(key)) if key == OWN else _ratio(cell.ratio(key))
            row += [_ms(cell.median_s(key)), _ms(cell.alone_s(key)), last]
        yield _row(row)
    yield ""


def _layers(cell: GpuMeasurement) -> Iterator[str]:
    columns = ["tensor", "kernel", "us", "share", "GMAC/s", "peak", "GB/s", "bound", "of bound"]
    yield from _head(columns, left=2)
    total = sum(layer.seconds for layer in cell.layers)
    for layer in cell.layers:
        kernel = layer.kernel
        yield _row(
            [
                kernel.tensor,
                f"{kernel.title} `{kernel.function}`",
                f"{1e6 * layer.seconds:.1f}",
                f"{layer.seconds / total:.1%}",
                f"{kernel.macs / layer.seconds / 1e9:.0f}" if kernel.macs else "-",
                _share(layer.peak),
                f"{kernel.moved_bytes / layer.seconds / 1e9:.0f}",
                layer.bound or "-",
                _share(layer.share),
            ]
        )


def _bounds(cell: GpuMeasurement) -> Iterator[str]:
    """Yield how much of the time is of kernels bound by what, and what is between them."""
    total = sum(layer.seconds for layer in cell.layers)
    groups: dict[str, list[Layer]] = {}
    for layer in cell.layers:
        groups.setdefault(layer.bound or "unknown", []).append(layer)
    for bound, layers in sorted(groups.items()):
        seconds = sum(layer.seconds for layer in layers)
        yield f"- {bound}: {len(layers)} kernels, {_ms(seconds)} ms, {seconds / total:.0%}"
    if OWN in cell.turns:
        yield f"- sum of kernels {_ms(total)} ms, whole network {_ms(cell.median_s(OWN))} ms"


def _peaks(measured: Peaks, sheet: Peaks) -> Iterator[str]:
    yield from _head(["", "measured", "data sheet"], left=1)
    rows = (
        ("dp4a, TMAC/s", "dp4a_macs_s", 1e12),
        ("int8 matrix instructions, TMAC/s", "mma_macs_s", 1e12),
        ("copy, GB/s read and written", "copy_bytes_s", 1e9),
        ("a kernel that does nothing, us", "launch_s", 1e-6),
        ("clock of a multiprocessor, MHz", "sm_mhz", 1),
    )
    for title, name, unit in rows:
        values = (getattr(peaks, name) for peaks in (measured, sheet))
        yield _row([title, *("-" if value is None else f"{value / unit:.2f}" for value in values)])


def _verdicts(cells: Sequence[GpuMeasurement]) -> Iterator[str]:
    for cell in cells:
        where = f"{cell.network}, batch {cell.batch}"
        for name, fault in cell.wrong.items():
            yield f"**WRONG** {where}, {name}: {fault}"
        if not cell.wrong:
            tensors = f"; {cell.checked} tensors as the NumPy oracle's" if cell.checked else ""
            yield f"{where}: logits bit for bit as computed at the build{tensors}"


def _failures(cells: Sequence[GpuMeasurement]) -> Iterator[str]:
    for cell in cells:
        for key, reason in cell.failures.items():
            name = SYSTEMS[key].name if key in SYSTEMS else key
            yield f"{cell.network}, batch {cell.batch}, {name}: {reason}"


def clocks(cells: Sequence[GpuMeasurement]) -> str:
    """Return the lowest and the highest clock right after a turn; empty if it was not read."""
    found = [
        turn.sm_mhz
        for cell in cells
        for turns in cell.turns.values()
        for turn in turns
        if turn.sm_mhz is not None
    ]
    return f"{min(found):.0f} to {max(found):.0f} MHz" if found else ""


def _head(columns: Sequence[str], left: int) -> Iterator[str]:
    yield _row(columns)
    yield _row(["---" if place < left else "---:" for place in range(len(columns))])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
