"""From a model file to an artifact and its report: every stage, in order, in one call."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm import IRModule
from tvm.target import Target

from relay_int8.api.export import write_qdq
from relay_int8.api.shipping import manifest_of, shipped_model
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.build import Built, check_float16, compile_module
from relay_int8.compiler.kernel_calls import KernelCall
from relay_int8.compiler.target import resolve, resolve_target
from relay_int8.data.dataset import Batches, Dataset
from relay_int8.data.images import open_images
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ConfigError, RecordError
from relay_int8.files import require_outputs
from relay_int8.frontend.model import import_model, model_bytes
from relay_int8.frontend.options import Shapes
from relay_int8.graph import dataflow
from relay_int8.graph.interface import open_inputs, outputs_of
from relay_int8.graph.pixels import PixelLayout
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.plan_file import with_plan
from relay_int8.quantization.quantize import QuantizedModel, quantize
from relay_int8.report.assembly import report_of, with_fidelity, with_sensitivity, with_times
from relay_int8.report.contents import Report
from relay_int8.report.html_page import is_page, write_report_page
from relay_int8.runtime.artifact import LIBRARY, save_artifact
from relay_int8.runtime.module import refusal
from relay_int8.tuning.records import Records, shipped_logs


def compile_model(
    model: str | Path,
    data: str | Path | Batches | CalibrationTable | None,
    output: str | Path,
    *,
    config: QuantConfig | None = None,
    plan: str | Path | None = None,
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
    sensitivity: int = 0,
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
    plan
        Plan file, as ``relay-int8 sensitivity`` writes it; what it leaves in float by choice stays.
    target
        A TVM target, "native", "cuda", or another name of ``schedules.targets.TARGETS``.
    architectures
        For GPUs, those that the artifact holds code of: "native", "all", or names with commas
        between (:func:`relay_int8.compiler.target.resolve`).
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
    sensitivity
        Images to measure each layer's sensitivity on, for the report; 0 leaves it out.
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
    _check_graphs(cuda_graphs, where)
    known = _known_records(tuning_logs, where, records, require_tuned)
    require_outputs(output, report, table, qdq, read=(model, params, plan))
    _check_open_batch(batch, max_batch)
    clock = _Clock(progress)

    with clock.stage("import"):
        first = batch if max_batch is None else 1
        mod = import_model(model, batch=first, inputs=inputs, params=params)
    config = config if plan is None else with_plan(config, plan, mod)
    source = _source(mod, data, preprocessing)
    _check_goals(mod, source, sensitivity, table)
    with clock.stage("quantize"):
        quantized = _quantized(mod, source, config, as_page, progress)
    with clock.stage("build"):
        shipped = shipped_model(quantized, preprocessing, pixels, max_batch)
        built = compile_module(
            shipped.mod,
            where,
            known,
            destination.architectures,
            cuda_graphs=cuda_graphs,
            float16=float16,
        )
    if require_tuned and known is not None:
        _require_tuned(built, known)
    built = dataclasses.replace(built, calls=_named(built.calls, outputs_of(mod)))
    result = report_of(quantized, built, known, Path(model).name)
    manifest = manifest_of(mod, quantized, built, result, preprocessing, pixels, max_batch)

    if sensitivity:
        with clock.stage("sensitivity"):
            assert isinstance(source, Dataset)
            result = with_sensitivity(result, quantized, source, sensitivity, progress)
    with tempfile.TemporaryDirectory() as folder:
        library, trial = Path(folder) / LIBRARY, Path(folder) / "network.ri8"
        with clock.stage("export"):
            built.export(library)
            save_artifact(trial, library, manifest)
        if samples and isinstance(source, Dataset):
            with clock.stage("compare"):
                result = with_fidelity(result, quantized, source, samples, progress)
        if not refusal(manifest):
            with clock.stage("measure"):
                result = with_times(result, built, trial, threads)
        result = dataclasses.replace(
            result,
            model_bytes=model_bytes(model, params),
            artifact_bytes=trial.stat().st_size,
            seconds=clock.seconds,
        )
        _write_beside(result, quantized, report, table, qdq)
        save_artifact(output, library, manifest)
    return result


class _Clock:
    """Keeps how long each stage took, and tells ``progress`` that one starts and ends."""

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what stands in the ``with`` block; a block that raises is not kept."""
        start = time.perf_counter()
        if self._progress:
            self._progress(name, 0, 1)
        yield
        if self._progress:
            self._progress(name, 1, 1)
        self.seconds[name] = round(time.perf_counter() - start, 3)


def _known_records(
    tuning_logs: str | Path | None, target: Target, wanted: bool, require_tuned: bool
) -> Records | None:
    """Return the records of the caller's logs, then of the shipped ones; None if not ``wanted``."""
    if wanted:
        return Records(Path(tuning_logs) if tuning_logs else None, target, shipped_logs())
    if tuning_logs or require_tuned:
        raise ConfigError("tuned kernels are asked for, and records are switched off; choose one")
    return None


def _check_graphs(cuda_graphs: bool, target: Target) -> None:
    """Refuse to leave out what only GPUs have."""
    if not cuda_graphs and target.kind.name != "cuda":
        raise ConfigError(
            f"no CUDA graphs are asked for, but the target is {target.kind.name}, which has none; "
            "leave that out, or build for cuda"
        )


def _check_open_batch(batch: int | None, max_batch: int | None) -> None:
    """Refuse two answers to how many images a run takes, and a range of one."""
    if max_batch is None:
        return
    if batch is not None:
        raise ConfigError(
            f"batch {batch} and batches 1 to {max_batch} are both asked for; choose one"
        )
    if max_batch < 2:
        raise ConfigError(f"max_batch is {max_batch}; it must be at least 2, or use batch")


def _source(
    mod: IRModule,
    data: str | Path | Batches | CalibrationTable | None,
    preprocessing: Preprocessing | None,
) -> Dataset | CalibrationTable | None:
    """Return opened data or a table; refuse what does not go with the model."""
    if dataflow.is_quantized(mod) and isinstance(data, CalibrationTable):
        raise ConfigError(
            "the model is quantized already and keeps its own scales; leave the table out"
        )
    if data is None and not dataflow.is_quantized(mod):
        raise ConfigError(
            "the model is in float: give calibration images (--data) or a calibration table "
            "(--table)"
        )
    if data is None or isinstance(data, CalibrationTable):
        return data
    return open_images(open_inputs(mod), data, preprocessing)


def _check_goals(
    mod: IRModule,
    source: Dataset | CalibrationTable | None,
    sensitivity: int,
    table: str | Path | None,
) -> None:
    """Refuse results that such a model, or such a source of ranges, cannot give."""
    quantized = dataflow.is_quantized(mod)
    if sensitivity and (quantized or not isinstance(source, Dataset)):
        raise ConfigError(
            "sensitivity quantizes a float model anew on images; give both, or leave it out"
        )
    if table is not None and quantized:
        raise ConfigError("the model is quantized already: there is no calibration table to write")


def _quantized(
    mod: IRModule,
    source: Dataset | CalibrationTable | None,
    config: QuantConfig,
    keep_histograms: bool,
    progress: Progress | None,
) -> QuantizedModel:
    """Quantize a float model; a model that is quantized already keeps its scales."""
    if dataflow.is_quantized(mod):
        return adopt(mod, config)
    assert source is not None
    return quantize(mod, source, config, keep_histograms=keep_histograms, progress=progress)


def _write_beside(
    result: Report,
    quantized: QuantizedModel,
    report: str | Path | None,
    table: str | Path | None,
    qdq: str | Path | None,
) -> None:
    """Write what was asked for beside the artifact."""
    if table is not None:
        quantized.table.save(table)
    if qdq is not None:
        write_qdq(quantized, qdq)
    if report is not None and is_page(report):
        write_report_page(result, quantized.table, report)
    elif report is not None:
        result.save(report)


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


def _require_tuned(built: Built, records: Records) -> None:
    """Refuse a network with kernels that no record was found for."""
    untuned = [call.tensor for call in built.calls if call.template and not call.tuned]
    if untuned:
        refused = "".join(f"; {where}: {why}" for where, why in records.refused.items())
        raise RecordError(
            f"tuned kernels were required, but {len(untuned)} have no record: "
            f"{', '.join(untuned)}{refused}; run relay-int8 tune for this model and target"
        )
