"""Numbers of a report as text, on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay_int8.report.accuracy import Evaluation


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


def demand_rows(demand: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return how a demand on accuracy was met, as title and text; none where there was none."""
    if not demand:
        return []

    def _score(name: str) -> str:
        value = float(demand[name])  # a report's file has infinite ones as text
        return f"{decibels(value)} dB" if demand["measure"] == "SNR" else f"{value:.4f}"

    kind = "calibration images held out" if demand["held_out"] else "images"
    before = "" if demand["measure"] == "SNR" else f"FP32 {_score('fp32')}, "
    floats = demand["floats"]
    cost = f"{len(floats)} layers, {demand['float_macs']:.2%} of the MACs: {', '.join(floats)}"
    return [
        ("demanded", f"{demand['demand']}, on {demand['images']} {kind}"),
        (
            "reached",
            f"{demand['measure']} {_score('reached')} ({before}all in integers {_score('int8')}), "
            f"{demand['measurements']} networks measured",
        ),
        ("in float for it", cost if floats else "nothing"),
    ]


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
