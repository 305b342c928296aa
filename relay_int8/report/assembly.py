"""Fill the report of a compiled network: layers, kernels, fidelity and times."""

from __future__ import annotations

import dataclasses
import json
import time
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import IRModule

from relay_int8.calibration.observe import Progress
from relay_int8.compiler.build import Built, compile_module, virtual_machine
from relay_int8.compiler.kernel_calls import KernelCall, timed_calls, times_by_tensor
from relay_int8.data.dataset import Dataset
from relay_int8.graph.interface import inputs_of
from relay_int8.graph.plan import Plan
from relay_int8.machine.gpu import installed_gpus
from relay_int8.machine.host import cpu_name
from relay_int8.quantization.mixed_precision.sensitivity import Variants, measure_sensitivity
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.report.contents import LayerReport, Report
from relay_int8.report.fidelity import measure_fidelity
from relay_int8.report.hazards import find_hazards, hazards_here
from relay_int8.report.sensitivity_file import with_ratios
from relay_int8.runtime.artifact import load
from relay_int8.runtime.module import Module
from relay_int8.runtime.profiling import random_inputs
from relay_int8.runtime.tvm_runtime import set_threads
from relay_int8.tuning.records import Records
from schedules.targets import native_target, target_config

WARM_UP, REPEATS = 3, 20  # runs of a network that is timed
FEW = 5  # runs of one so large that REPEATS would take longer than MOST_SECONDS
MOST_SECONDS = 1.0
PROFILED = 10  # runs in which each kernel is timed


def report_of(
    quantized: QuantizedModel, built: Built, records: Records | None, model: str
) -> Report:
    """Return the report of a network that was built with ``records``, nothing measured yet."""
    computing = (call for call in built.calls if call.computes)
    kernels = {  # of a layer in parts, that with most products
        call.tensor: call.template or call.function
        for call in sorted(computing, key=attrgetter("multiplications"))
    }
    return Report(
        model=model,
        digest=quantized.digest,
        model_hash=quantized.model_hash,
        table_hash=quantized.table_hash,
        settings={
            **quantized.settings,
            "target": json.dumps(target_config(built.target)),
            "calibration images": quantized.table.images,
        },
        layers=layers_of(quantized.plan, kernels),
        hazards=hazards_here(find_hazards(quantized.reference, quantized.plan, quantized.table)),
        declined=(*quantized.declined, *built.declined),
        repacks=tuple(call.name for call in built.calls if call.is_repack),
        gpu=built.gpu.to_dict(_tensors(built.calls)) if built.gpu else {},
        tuning=_tuning(built, records) if records is not None else {},
    )


def layers_of(plan: Plan, kernels: dict[str, str]) -> tuple[LayerReport, ...]:
    """Return what became of each layer; ``kernels``: tensor -> what computes it."""
    return tuple(
        LayerReport(
            name=layer.name,
            kind=layer.kind,
            macs=layer.macs,
            integer=layer.integer,
            reason=layer.reason or "",
            kernel=kernels.get(layer.name, ""),
        )
        for layer in plan.layers
    )


def _tensors(calls: tuple[KernelCall, ...]) -> dict[str, list[str]]:
    """Return PrimFunc -> the names of what it computes."""
    tensors: dict[str, list[str]] = {}
    for call in calls:
        tensors.setdefault(call.function, []).append(call.name)
    return tensors


def _tuning(built: Built, records: Records) -> dict[str, Any]:
    """Return how many kernels run as tuned, how many by default, and why records were refused."""
    kernels = [call for call in built.calls if call.template]
    tuned = sum(call.tuned for call in kernels)
    return {
        "tuned": tuned,
        "default": len(kernels) - tuned,
        "refused": dict(records.refused),
    }


def with_fidelity(
    report: Report,
    quantized: QuantizedModel,
    data: Dataset,
    samples: int,
    progress: Progress | None,
) -> Report:
    """Add signal-to-noise ratios and saturation, measured on this computer."""
    fidelity = measure_fidelity(
        quantized, data, native_target(), samples=samples, progress=progress
    )
    layers = tuple(
        dataclasses.replace(
            layer,
            snr_db=fidelity.layers[layer.name].snr_db,
            saturation=fidelity.layers[layer.name].saturation if layer.integer else None,
        )
        if layer.name in fidelity.layers
        else layer
        for layer in report.layers
    )
    return dataclasses.replace(
        report, layers=layers, outputs=fidelity.outputs, samples=fidelity.samples
    )


def with_sensitivity(
    report: Report,
    quantized: QuantizedModel,
    data: Dataset,
    samples: int,
    progress: Progress | None,
) -> Report:
    """Add what each layer's integers cost the outputs, on the first ``samples`` images."""
    measured = measure_sensitivity(Variants(quantized, data, samples), progress)
    ratios = {layer.name: (layer.alone.snr_db, layer.without.snr_db) for layer in measured.layers}
    return with_ratios(report, ratios)


def with_times(
    report: Report,
    built: Built,
    artifact: str | Path,
    wanted: int | None = None,
    reference: IRModule | None = None,
) -> Report:
    """Add the artifact's times on this computer, and that of the FP32 ``reference`` beside it.

    With the ``wanted`` threads, or as many as the runtime of this process has; the report says how
    many they were. The reference is not timed beside an artifact for GPUs or any batch.
    """
    module = load(artifact)
    most = module.threads
    set_threads(min(wanted or most, most))
    try:
        report = _timed(report, built, module)
        if reference is None or built.gpu or module.manifest.max_batch:
            return report
        latency_ms = {**report.latency_ms, "float32": _float_ms(reference)}
        return dataclasses.replace(report, latency_ms=latency_ms)
    finally:
        set_threads(most)


def _float_ms(reference: IRModule) -> float:
    """Return the median milliseconds of the FP32 network on random inputs."""
    target = native_target()
    main = virtual_machine(compile_module(reference, target, transient=True))["main"]
    inputs = [tvm.runtime.tensor(x) for x in random_inputs(inputs_of(reference)).values()]
    times_ms: list[float] = []
    while len(times_ms) < WARM_UP + _repeats(min(times_ms, default=0)):
        start = time.perf_counter_ns()
        main(*inputs)
        times_ms.append((time.perf_counter_ns() - start) / 1e6)
    return float(np.median(times_ms[WARM_UP:]))


def _repeats(run_ms: float) -> int:
    """Return how often a network is run for its median; ``run_ms``: what a run takes."""
    return REPEATS if not run_ms else max(FEW, min(REPEATS, int(MOST_SECONDS * 1e3 / run_ms)))


def _timed(report: Report, built: Built, module: Module) -> Report:
    inputs = random_inputs(module.manifest.inputs)
    (run_ms,) = module.time(inputs, repeats=1)
    repeats = _repeats(run_ms)
    latency_ms = {"int8": float(np.median(module.time(inputs, repeats=repeats, warmup=0)))}
    profiled = [] if module.has_graph else module.profile(inputs, min(repeats, PROFILED))
    timed = timed_calls(built.calls, profiled) if profiled else []
    times_us = times_by_tensor(timed)
    names = {layer.name for layer in report.layers}
    other_us = {
        call.name: time_us
        for call, time_us in timed
        if not call.computes or call.tensor not in names
    }
    layers = tuple(
        dataclasses.replace(layer, time_us=times_us.get(layer.name)) for layer in report.layers
    )
    facts = {
        "cpu": cpu_name(),
        "threads": module.threads,
        "batch": max(module.manifest.inputs[0].shape[0], 1),
        **({"gpu": str(installed_gpus().devices[module.device.number])} if built.gpu else {}),
    }
    return dataclasses.replace(
        report, layers=layers, other_us=other_us, latency_ms=latency_ms, machine=facts
    )
