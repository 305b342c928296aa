"""The third stage: a quantized network becomes a library for one target, and an artifact."""

from __future__ import annotations

import dataclasses
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tvm import IRModule
from tvm.target import Target

from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.argument_types import checked
from relay_int8.compiler.build import Built, check_float16, compile_module
from relay_int8.compiler.open_batch import opened
from relay_int8.compiler.target import Destination, resolve, resolve_target
from relay_int8.errors import ArtifactError, ConfigError, RecordError
from relay_int8.files import require_space
from relay_int8.graph.interface import of_any_batch, of_pixels
from relay_int8.graph.pixels import PixelLayout, Pixels, with_pixels
from relay_int8.report.assembly import report_of
from relay_int8.report.contents import Report
from relay_int8.runtime.artifact import LIBRARY, save_artifact
from relay_int8.runtime.manifest import Manifest
from relay_int8.tuning.log_folders import shipped_logs
from relay_int8.tuning.records import Records
from schedules.targets import compact, machine, needed_flags, target_config

KERNEL_BYTES = 4_000_000  # machine code of a large network's kernels, object file and library


@checked
@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Target, threads and form of the artifact of a quantized network.

    Parameters
    ----------
    target
        A TVM target, "native", "cuda", or another name of ``schedules.targets.TARGETS``.
    arch
        For GPUs, the architectures that the artifact holds code of: "native", "all", or names with
        commas between (:func:`relay_int8.compiler.target.resolve`).
    cuda_graphs
        For GPUs: launch kernels together.
    float16
        For GPUs: float layers multiply float16, and hold such weights; sums stay float32.
    compact
        For CPUs: weights take no more memory than they must. Convolutions of 3 x 3 pixels are not
        computed by Winograd's algorithm then, which is up to 1.8 times as fast on VNNI and 4 times
        on AVX2 and whose weights take 8 times the memory.
    max_batch
        Make the artifact for every batch from 1 to this; kernels then are not tuned.
    pixels
        "NCHW" or "NHWC": the artifact takes uint8 pictures of that layout, resized and cropped, in
        the order of channels that the preprocessing says, and does the rest of it itself.
    threads
        Threads that the network will run on; the target's own, usually all cores, if None.
    tuning_logs
        Folder of tuning logs; kernels they know for the target run as they were tuned, the others
        as logs that come with the project say.
    records
        Whether any logs are used; without them every kernel has its default schedule.
    require_tuned
        Refuse to build a network of which a kernel has no tuning record.
    """

    target: str | Target = "native"
    arch: str = ""
    cuda_graphs: bool = True
    float16: bool = False
    compact: bool = False
    max_batch: int | None = None
    pixels: PixelLayout | None = None
    threads: int | None = None
    tuning_logs: str | Path | None = None
    records: bool = True
    require_tuned: bool = False


@dataclass(frozen=True, kw_only=True)
class ResolvedOptions:
    """Checked options, with the target and the tuning records that they mean on this computer."""

    options: BuildOptions
    destination: Destination
    target: Target
    records: Records | None


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A built network: its library and manifest, which :meth:`save` writes, and its report.

    Parameters
    ----------
    quantized
        What it was built from.
    built
        The compiled library and its kernel calls.
    report
        Layers, kernels, hazards; :func:`relay_int8.measure` adds accuracy and times.
    manifest
        What the artifact says of itself; the library's hash is added when it is written.
    """

    quantized: Quantized
    built: Built
    report: Report
    manifest: Manifest

    def __repr__(self) -> str:
        """Return what was built and for which machine; ``report`` says more."""
        kind = self.manifest.target.get("mcpu") or self.manifest.target.get("arch") or "any"
        return (
            f"<Artifact of {self.quantized.model.name} for {self.manifest.machine} ({kind}): "
            f"{len(self.built.calls)} kernels, {self.report!r}>"
        )

    def __reduce__(self) -> str:
        """Refuse to be pickled: machine code is kept in files."""
        raise ArtifactError("an artifact is not pickled; write it with save, and load the file")

    @cached_property
    def library(self) -> bytes:
        """The linked library.

        Raises
        ------
        ArtifactError
            If there is no compiler for the target's machine, or it fails.
        ConfigError
            If the temporary folder has no room for it.
        """
        # LLVM ends the process where the disk is full, without a word of which disk.
        wanted = KERNEL_BYTES if self.built.weights else library_bytes(self.quantized.model)
        require_space(tempfile.gettempdir(), wanted)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / LIBRARY
            self.built.export(file)
            return file.read_bytes()

    def save(self, path: str | Path) -> Manifest:
        """Write the artifact, whole or not at all, and return its manifest.

        Raises
        ------
        ArtifactError
            If the library cannot be linked, or the file cannot be written.
        """
        return save_artifact(path, self.library, self.manifest, self.built.weights)


def library_bytes(model: Model) -> int:
    """Return about what linking a model's library takes in the temporary folder, weights in it.

    That is the int8 weights twice, in an object file and in the library, and the kernels.
    """
    weights = model.file_bytes if model.is_quantized else model.file_bytes // 4
    return 2 * weights + KERNEL_BYTES


def resolve_options(options: BuildOptions | None) -> ResolvedOptions:
    """Return what options mean here; wrong ones are refused before any work.

    Raises
    ------
    ConfigError
        If target or architecture are not known, or options contradict each other.
    RecordError
        If the folder of tuning logs holds none.
    """
    options = options or BuildOptions()
    destination = resolve(options.target, options.arch)
    target = resolve_target(destination.target, options.threads)
    check_float16(options.float16, target)
    if not options.cuda_graphs and target.kind.name != "cuda":
        raise ConfigError(
            f"no CUDA graphs are asked for, but the target is {target.kind.name}, which has none; "
            "leave that out, or build for cuda"
        )
    if options.compact:
        target = _compact(target)
    if options.max_batch is not None and options.max_batch < 2:
        raise ConfigError(f"max_batch is {options.max_batch}; it must be at least 2, or use batch")
    return ResolvedOptions(
        options=options, destination=destination, target=target, records=_records(options, target)
    )


def _compact(target: Target) -> Target:
    if target.kind.name == "cuda":
        raise ConfigError(
            "compact weights are asked for, but the target is cuda, whose kernels have no others; "
            "leave that out, or build for a CPU"
        )
    return compact(target)


@checked
def build(quantized: Quantized, options: BuildOptions | ResolvedOptions | None = None) -> Artifact:
    """Compile a quantized network for a target.

    Parameters
    ----------
    quantized
        What :func:`relay_int8.quantize` gave.
    options
        Target, threads, tuning records, form of the inputs; ``BuildOptions()`` if None.

    Raises
    ------
    ConfigError
        If options contradict each other or the network, or a compiler is not installed.
    UnsupportedOpError
        If no template computes some kernel on the target.
    RecordError
        With ``require_tuned``, if a kernel has no record.

    Examples
    --------
    >>> artifact = relay_int8.build(quantized, relay_int8.BuildOptions(threads=1))
    >>> artifact
    <Artifact of digits.onnx for ...: 11 kernels, <Report of digits.onnx: ...>>
    >>> manifest = artifact.save("digits.ri8")
    """
    resolved = options if isinstance(options, ResolvedOptions) else resolve_options(options)
    options = resolved.options
    built = compile_module(
        _with_inputs(quantized, options),
        resolved.target,
        resolved.records,
        resolved.destination.architectures,
        cuda_graphs=options.cuda_graphs,
        float16=options.float16,
        weights_apart=True,
    )
    if options.require_tuned and resolved.records is not None:
        _require_tuned(built, resolved.records)
    report = report_of(quantized.network, built, resolved.records, quantized.model.name)
    report = dataclasses.replace(
        report,
        model_bytes=quantized.model.file_bytes,
        demand=quantized.met.to_dict() if quantized.met else {},
    )
    manifest = _manifest(quantized, built, report, options)
    return Artifact(quantized=quantized, built=built, report=report, manifest=manifest)


def _records(options: BuildOptions, target: Target) -> Records | None:
    """Return the records of the caller's logs, then of the shipped ones; None if not wanted."""
    logs = options.tuning_logs
    if options.records:
        return Records(Path(logs) if logs else None, target, shipped_logs())
    if logs or options.require_tuned:
        raise ConfigError("tuned kernels are asked for, and records are switched off; choose one")
    return None


def _with_inputs(quantized: Quantized, options: BuildOptions) -> IRModule:
    """Return the module with the inputs that the artifact has: of any batch, of raw pixels."""
    mod = quantized.network.mod
    if options.pixels is not None:
        if quantized.preprocessing is None:
            raise ConfigError(
                "raw pixels are asked for, but no preprocessing: the artifact must know it"
            )
        pixels = Pixels(preprocessing=quantized.preprocessing, layout=options.pixels)
        mod = with_pixels(mod, pixels)
    return mod if options.max_batch is None else opened(mod, options.max_batch)


def _manifest(
    quantized: Quantized, built: Built, report: Report, options: BuildOptions
) -> Manifest:
    """Return the manifest of a network that was built."""
    inputs, outputs = quantized.model.inputs, quantized.model.outputs
    preprocessing = quantized.preprocessing
    if options.pixels is not None and preprocessing is not None:
        layout = options.pixels
        inputs = tuple(of_pixels(info, layout) for info in inputs)
        preprocessing = preprocessing.without_arithmetic(layout)
    is_open = options.max_batch is not None
    return Manifest(
        inputs=of_any_batch(inputs) if is_open else inputs,
        outputs=of_any_batch(outputs) if is_open else outputs,
        max_batch=options.max_batch,
        machine=machine(built.target),
        cpu_flags=needed_flags(built.target),
        target=target_config(built.target),
        model_digest=quantized.digest,
        preprocessing=preprocessing.to_dict() if preprocessing else {},
        settings={"model": report.model, **report.settings},
        coverage=report.coverage,
        gpu=built.gpu.needs if built.gpu else None,
        gpu_code=report.gpu,
        memory=built.memory,
        kernels=tuple(call.entry for call in built.calls),
    )


def _require_tuned(built: Built, records: Records) -> None:
    """Refuse a network with kernels that no record was found for."""
    untuned = [call.name for call in built.calls if call.template and not call.tuned]
    if untuned:
        refused = "".join(f"; {where}: {why}" for where, why in records.refused.items())
        raise RecordError(
            f"tuned kernels were required, but {len(untuned)} have no record: "
            f"{', '.join(untuned)}{refused}; run relay-int8 tune for this model and target"
        )
