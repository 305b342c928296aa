"""From a model file to an artifact and its report: every stage, in order, in one call."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tvm import IRModule
from tvm.target import Target

from relay_int8 import graph
from relay_int8.adopt import adopt
from relay_int8.analysis.fidelity import measure_fidelity
from relay_int8.analysis.hazards import find_hazards
from relay_int8.analysis.report import LayerReport, Report
from relay_int8.analysis.report_page import is_page, write_report_page
from relay_int8.analysis.timing import random_inputs, times_by_tensor
from relay_int8.annotate import annotate
from relay_int8.artifact import Manifest, TensorInfo, load, save_artifact
from relay_int8.batch import with_open_batch
from relay_int8.build import Built, KernelCall, build, check_float16
from relay_int8.calibration.data import Batches, Dataset, open_data
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.preprocessing import Preprocessing
from relay_int8.calibration.table import CalibrationTable
from relay_int8.config import QuantConfig
from relay_int8.errors import ConfigError, RecordError
from relay_int8.export.onnx_file import write_qdq
from relay_int8.frontend.model import Shapes, import_model, model_bytes
from relay_int8.gpu import installed_gpus
from relay_int8.host import cpu_flags, cpu_name
from relay_int8.module import refusal
from relay_int8.pipeline import normalize
from relay_int8.pixels import PixelLayout, Pixels, with_pixels
from relay_int8.plan import Plan
from relay_int8.quantize import QuantizedModel, quantize
from relay_int8.target import resolve
from relay_int8.tuning.records import Records, shipped_logs
from schedules.targets import machine, native_target, needed_flags, target_config


def compile_model(
    model: str | Path,
    data: str | Path | Batches | CalibrationTable | None,
    output: str | Path,
    *,
    config: QuantConfig | None = None,
    target: str | Target = "native",
    architectures: str = "",
    cuda_graphs: bool = True,
    float16: bool = False,
    batch: int | None = None,
    max_batch: int | None = None,
    inputs: Shapes | None = None,
    params: str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    pixels: PixelLayout | None = None,
    report: str | Path | None = None,
    table: str | Path | None = None,
    qdq: str | Path | None = None,
    samples: int = 8,
    tuning_logs: str | Path | None = None,
    records: bool = True,
    threads: int | None = None,
    require_tuned: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Quantize a model, compile it and write the artifact.

    Parameters
    ----------
    model
        File of a format that :func:`relay_int8.import_model` reads.
    data
        Calibration images (:func:`relay_int8.calibration.open_data` says in which forms), or a
        calibration table. None for a model that is quantized already: its own scales are kept
        (images, where given, then serve the comparison with FP32 alone).
    output
        The artifact to write.
    config
        Preset, method, exclusions; ``QuantConfig()`` if None.
    target
        A TVM target, "native", "cuda", or another name of ``schedules.targets.TARGETS``.
    architectures
        For GPUs, those that the artifact holds code of: "native", "all", or names with commas
        between (:func:`relay_int8.target.resolve`).
    cuda_graphs
        For GPUs: launch kernels together.
    float16
        For GPUs: float layers multiply float16, and hold such weights; sums stay float32.
    batch
        Batch of the artifact, where the model leaves it open.
    max_batch
        Make the artifact for every batch from 1 to this; kernels then are not tuned.
    inputs, params
        Shapes of the inputs and file of the weights, where the model file leaves them open.
    preprocessing
        From picture to input, for a folder of pictures; kept in the artifact.
    pixels
        "NCHW" or "NHWC": the artifact takes uint8 pictures of that layout, resized and cropped, in
        the order of channels that ``preprocessing`` says, and does the rest of it itself.
    report
        Where to write the report, if anywhere: as JSON, or as a page if the name ends in ".html".
        The table holds the counts then, for the page's histograms.
    table
        Where to write the calibration table as JSON, if anywhere.
    qdq
        Where to write the quantized network as QDQ ONNX, if anywhere.
    samples
        Images to compare every layer with FP32 on; 0 leaves the comparison out.
    tuning_logs
        Folder of tuning logs; kernels they know for the target run as they were tuned, the others
        as logs that come with the project say.
    records
        Whether any logs are used; without them every kernel has its default schedule.
    threads
        Threads that the network will run on; the target's own, usually all cores, if None.
    require_tuned
        Refuse to build a network of which a kernel has no tuning record.
    progress
        Called as stages go on.

    Raises
    ------
    Int8Error
        One of its kinds, by what is wrong; no artifact is written then.
    """
    config = config or QuantConfig()
    find_method(config.method)
    as_page = is_page(report)
    destination = resolve(target, architectures)
    where = resolve_target(destination.target, threads)
    check_float16(float16, where)
    if not records and (tuning_logs or require_tuned):
        raise ConfigError("tuned kernels are asked for, and records are switched off; choose one")
    own = Path(tuning_logs) if tuning_logs else None
    known = Records(own, where, shipped_logs()) if records else None
    seconds: dict[str, float] = {}
    with _timed("import", seconds, progress):
        if max_batch is not None:
            _check_open_batch(batch, max_batch)
        first = 1 if max_batch is not None else batch
        mod = import_model(model, batch=first, inputs=inputs, params=params)
    source = _source(mod, data, preprocessing)
    if table is not None and graph.is_quantized(mod):
        raise ConfigError("the model is quantized already: there is no calibration table to write")
    with _timed("quantize", seconds, progress):
        if graph.is_quantized(mod):
            quantized = adopt(mod, config)
        else:
            assert source is not None
            quantized = quantize(mod, source, config, keep_histograms=as_page, progress=progress)
    with _timed("build", seconds, progress):
        shipped = _shipped(quantized, preprocessing, pixels, max_batch)
        built = build(
            shipped,
            where,
            known,
            destination.architectures,
            cuda_graphs=cuda_graphs,
            float16=float16,
        )
    if require_tuned and known is not None:
        _require_tuned(built, known)
    built = dataclasses.replace(built, calls=_named(built.calls, _outputs(mod)))
    result = _report(quantized, built, Path(model).name, config, seconds)
    if known is not None:
        result = dataclasses.replace(result, tuning=_tuning(built, known))
    manifest = _manifest(mod, quantized, built, result, preprocessing, pixels, max_batch)
    with _timed("export", seconds, progress), tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library.so"
        built.export(library)
        save_artifact(output, library, manifest)
    if samples and isinstance(source, Dataset):
        with _timed("compare", seconds, progress):
            result = _with_fidelity(result, quantized, source, samples, progress)
    if not refusal(manifest):
        with _timed("measure", seconds, progress):
            result = _with_times(result, built, output)
    result = dataclasses.replace(
        result,
        model_bytes=model_bytes(model, params),
        artifact_bytes=Path(output).stat().st_size,
        seconds=seconds,
    )
    if table is not None:
        quantized.table.save(table)
    if qdq is not None:
        write_qdq(quantized, qdq)
    if report is not None and as_page:
        write_report_page(result, quantized.table, report)
    elif report is not None:
        result.save(report)
    return result


def preview(
    model: str | Path,
    *,
    preset: str = "int8",
    batch: int | None = None,
    inputs: Shapes | None = None,
    params: str | Path | None = None,
) -> Report:
    """Return what would become of each layer of a model, before any data is seen."""
    imported = import_model(model, batch=batch, inputs=inputs, params=params)
    if graph.is_quantized(imported):
        adopted = adopt(imported)
        mod, plan, settings = adopted.reference, adopted.plan, adopted.settings
    else:
        mod = normalize()(imported)
        plan, settings = annotate(mod, QuantConfig(preset=preset)), {"preset": preset}
    return Report(
        model=Path(model).name,
        digest="",
        settings=settings,
        layers=_layers(plan, {}),
        hazards=find_hazards(mod, plan),
        model_bytes=model_bytes(model, params),
    )


def resolve_target(target: str | Target, threads: int | None = None) -> Target:
    """Return a target by name, see :func:`relay_int8.target.resolve`; ConfigError if unknown.

    ``threads`` are those that the network will run on; the target's own if None.
    """
    target = resolve(target).target
    return Target(target_config(target) | {"num-cores": threads}) if threads else target


def _check_open_batch(batch: int | None, max_batch: int) -> None:
    if batch is not None:
        raise ConfigError(
            f"batch {batch} and batches 1 to {max_batch} are both asked for; choose one"
        )
    if max_batch < 2:
        raise ConfigError(f"max_batch is {max_batch}; it must be at least 2, or use batch")


def _shipped(
    quantized: QuantizedModel,
    preprocessing: Preprocessing | None,
    pixels: PixelLayout | None,
    max_batch: int | None,
) -> QuantizedModel:
    """Return the model with the inputs that the artifact has: of any batch, of raw pixels."""
    mod = quantized.mod
    if pixels is not None:
        if preprocessing is None:
            raise ConfigError(
                "raw pixels are asked for, but no preprocessing: the artifact must know it"
            )
        mod = with_pixels(mod, Pixels(preprocessing=preprocessing, layout=pixels))
    if max_batch is not None:
        mod = with_open_batch(mod, max_batch)
    return dataclasses.replace(quantized, mod=mod)


def _source(
    mod: IRModule,
    data: str | Path | Batches | CalibrationTable | None,
    preprocessing: Preprocessing | None,
) -> Dataset | CalibrationTable | None:
    """Return opened data or a table; refuse what does not go with the model."""
    if graph.is_quantized(mod) and isinstance(data, CalibrationTable):
        raise ConfigError(
            "the model is quantized already and keeps its own scales; leave the table out"
        )
    if data is None and not graph.is_quantized(mod):
        raise ConfigError("the model is in float: give calibration images or a calibration table")
    if data is None or isinstance(data, CalibrationTable):
        return data
    dataset = open_data(data, _open_batch(_inputs(mod)), preprocessing)
    next(iter(dataset))  # what is wrong with the data is said before anything is compiled
    return dataset


@contextmanager
def _timed(stage: str, seconds: dict[str, float], progress: Progress | None) -> Iterator[None]:
    """Report that ``stage`` starts and ends, and keep how long it took."""
    start = time.perf_counter()
    if progress:
        progress(stage, 0, 1)
    yield
    if progress:
        progress(stage, 1, 1)
    seconds[stage] = round(time.perf_counter() - start, 3)


def _inputs(mod: IRModule) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(name=str(param.name), shape=graph.shape(param), dtype=graph.dtype(param))
        for param in mod["main"].params
    )


def _outputs(mod: IRModule) -> tuple[TensorInfo, ...]:
    return tuple(
        TensorInfo(name=str(var.name), shape=graph.shape(var), dtype=graph.dtype(var))
        for var in graph.results(mod["main"])
    )


def _named(
    calls: tuple[KernelCall, ...], outputs: tuple[TensorInfo, ...]
) -> tuple[KernelCall, ...]:
    """Give the call that computes a single output that output's name: TVM drops it."""
    return tuple(
        dataclasses.replace(call, tensor=outputs[0].name)
        if call.tensor == "outputs" and len(outputs) == 1
        else call
        for call in calls
    )


def _open_batch(inputs: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
    return tuple(dataclasses.replace(info, shape=(-1, *info.shape[1:])) for info in inputs)


def _of_pixels(info: TensorInfo, layout: PixelLayout) -> TensorInfo:
    n, c, h, w = info.shape
    shape = (n, h, w, c) if layout == "NHWC" else info.shape
    return dataclasses.replace(info, shape=shape, dtype="uint8")


def _layers(plan: Plan, kernels: dict[str, str]) -> tuple[LayerReport, ...]:
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


def _report(
    quantized: QuantizedModel,
    built: Built,
    model: str,
    config: QuantConfig,
    seconds: dict[str, float],
) -> Report:
    kernels = {call.tensor: call.template or call.function for call in built.calls}
    return Report(
        model=model,
        digest=quantized.digest,
        settings={
            **quantized.settings,
            "target": json.dumps(target_config(built.target)),
            "calibration images": quantized.table.images,
        },
        layers=_layers(quantized.plan, kernels),
        hazards=find_hazards(quantized.reference, quantized.plan, quantized.table),
        repacks=tuple(call.tensor for call in built.calls if call.is_repack),
        gpu=built.gpu.to_dict(_tensors(built.calls)) if built.gpu else {},
        seconds=seconds,
    )


def _tensors(calls: tuple[KernelCall, ...]) -> dict[str, list[str]]:
    """Return PrimFunc -> the tensors that it computes."""
    found: dict[str, list[str]] = {}
    for call in calls:
        found.setdefault(call.function, []).append(call.tensor)
    return found


def _tuning(built: Built, records: Records) -> dict[str, Any]:
    """Return how many kernels run as tuned, how many by default, and why records were refused."""
    kernels = [call for call in built.calls if call.template]
    tuned = sum(call.tuned for call in kernels)
    return {
        "tuned": tuned,
        "default": len(kernels) - tuned,
        "refused": dict(records.refused),
    }


def _require_tuned(built: Built, records: Records) -> None:
    """Refuse a network with kernels that no record was found for."""
    untuned = [call.tensor for call in built.calls if call.template and not call.tuned]
    if untuned:
        refused = "".join(f"; {where}: {why}" for where, why in records.refused.items())
        raise RecordError(
            f"tuned kernels were required, but {len(untuned)} have no record: "
            f"{', '.join(untuned)}{refused}; run relay-int8 tune for this model and target"
        )


def _with_fidelity(
    report: Report,
    quantized: QuantizedModel,
    data: Dataset,
    samples: int,
    progress: Progress | None,
) -> Report:
    """Add signal-to-noise ratios and saturation, measured on this computer."""
    found = measure_fidelity(
        quantized, data, native_target(cpu_flags()), samples=samples, progress=progress
    )
    layers = tuple(
        dataclasses.replace(
            layer,
            snr_db=found.layers[layer.name].snr_db,
            saturation=found.layers[layer.name].saturation if layer.integer else None,
        )
        for layer in report.layers
    )
    return dataclasses.replace(report, layers=layers, outputs=found.outputs, samples=found.samples)


def _with_times(report: Report, built: Built, artifact: str | Path) -> Report:
    """Add the artifact's times on this computer, with the runtime's choice of threads."""
    module = load(artifact)
    inputs = random_inputs(module.manifest.inputs)
    latency_ms = {"int8": float(np.median(module.time(inputs, repeats=20)))}
    times_us = {} if module.has_graph else times_by_tensor(built.calls, module.profile(inputs))
    layers = tuple(
        dataclasses.replace(layer, time_us=times_us.pop(layer.name, None))
        for layer in report.layers
    )
    facts = {
        "cpu": cpu_name(),
        "threads": module.threads,
        "batch": max(module.manifest.inputs[0].shape[0], 1),
        **({"gpu": str(installed_gpus().devices[module.device.number])} if built.gpu else {}),
    }
    return dataclasses.replace(
        report, layers=layers, other_us=times_us, latency_ms=latency_ms, machine=facts
    )


def _manifest(
    mod: IRModule,
    quantized: QuantizedModel,
    built: Built,
    report: Report,
    preprocessing: Preprocessing | None,
    pixels: PixelLayout | None,
    max_batch: int | None,
) -> Manifest:
    inputs, outputs = _inputs(mod), _outputs(mod)
    if pixels is not None and preprocessing is not None:
        inputs = tuple(_of_pixels(info, pixels) for info in inputs)
        preprocessing = preprocessing.without_arithmetic(pixels)
    return Manifest(
        inputs=inputs if max_batch is None else _open_batch(inputs),
        outputs=outputs if max_batch is None else _open_batch(outputs),
        max_batch=max_batch,
        machine=machine(built.target),
        cpu_flags=needed_flags(built.target),
        target=target_config(built.target),
        model_digest=quantized.digest,
        preprocessing=preprocessing.to_dict() if preprocessing else {},
        settings={"model": report.model, **report.settings},
        coverage=report.coverage,
        gpu=built.gpu.needs if built.gpu else None,
        gpu_code=report.gpu,
    )
