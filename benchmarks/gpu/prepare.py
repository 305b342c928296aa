"""``--build``: networks for a GPU, and what they must compute, made on a computer without one."""

from __future__ import annotations

import dataclasses
import datetime
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tvm.target import Target

from benchmarks import zoo
from benchmarks.gpu import bundle, peaks
from benchmarks.gpu.bundle_runtime import bundle_runtime
from benchmarks.gpu.chunks import Recipe, Store
from benchmarks.gpu.describe import describe
from benchmarks.gpu.device import Kind
from benchmarks.gpu.pictures import CALIBRATION_SEED, pictures
from benchmarks.macs import in_bounds_macs
from benchmarks.systems import sources_sha256
from relay_int8.calibration import open_data
from relay_int8.compiler.build import Built, compile_module
from relay_int8.compiler.passes.lower.realize import realized_integers
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.runtime.artifact import load, save_artifact
from relay_int8.runtime.manifest import Manifest
from relay_int8.tuning.records import Records
from schedules.cuda.toolchain.fat_binary import bundle as fat_binary
from schedules.cuda.toolchain.fat_binary import compile_parts
from schedules.targets import machine, named_target, native_target, needed_flags, target_config

INPUT, OUTPUT = "input", "logits"
CALIBRATION_IMAGES = 8
CONFIG = QuantConfig(method="max", require_int8=True)
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to build.

    Parameters
    ----------
    networks
        Keys of ``benchmarks.zoo.NETWORKS``.
    batches
        A library for each.
    architectures
        As in ``sm_90``: schedules are chosen for the first, code is there for all; none for a
        build that runs on this computer's processor.
    image_size
        The published one of each network if None.
    oracle
        Whether the NumPy oracle computes every tensor of the first image.
    tuning_logs
        Folder of records, if kernels are to run as they were tuned.
    cut
        One block of a kind instead of the whole depth, for tests.
    python
        Version of the Python that will run it, as in "3.12"; none where TVM is installed there.
    wheels
        Folder of wheels to take ``apache-tvm-ffi`` from, instead of the package index.
    """

    networks: tuple[str, ...]
    batches: tuple[int, ...]
    architectures: tuple[str, ...]
    image_size: int | None = None
    oracle: bool = True
    tuning_logs: Path | None = None
    cut: bool = False
    python: str = ""
    wheels: Path | None = None

    @property
    def kind(self) -> Kind:
        """What it is built for."""
        return "cuda" if self.architectures else "cpu"

    @property
    def target(self) -> Target:
        """The target that schedules are chosen for."""
        if self.architectures:
            return named_target(self.architectures[0])
        return native_target()


def prepare(folder: Path, plan: Plan, say: Say) -> bundle.Bundle:
    """Build into ``folder``, which must be new or empty, and return what is there then."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise bundle.BundleError(f"{folder} is not empty; name a new folder, or empty it")
    store, entries = Store(folder / bundle.PACKS), list[bundle.Entry]()
    for name in plan.networks:
        entries += _network(folder, store, name, plan, say)
    if plan.kind == "cuda":
        image = fat_binary(compile_parts(peaks.SOURCE.read_text(), plan.architectures))
        (folder / bundle.PEAKS).write_bytes(image)
    if plan.python:
        say(f"TVM's runtime for Python {plan.python}")
        bundle_runtime(folder / bundle.RUNTIME, plan.python, plan.wheels)
    made = bundle.Bundle(
        folder=folder,
        kind=plan.kind,
        facts={
            "sources": sources_sha256()[:12],
            "built": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "depth": "cut" if plan.cut else "full",
            "architectures": " ".join(plan.architectures) or "host",
        },
        entries=tuple(entries),
        places=store.places,
    )
    made.save()
    return made


def _network(folder: Path, store: Store, name: str, plan: Plan, say: Say) -> list[bundle.Entry]:
    size = plan.image_size or zoo.NETWORKS[name].image_size
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch) / "model.onnx"
        depth: zoo.Depth = "cut" if plan.cut else "full"
        content = zoo.build(name, image_size=size, batch="N", depth=depth)
        model.write_bytes(content.SerializeToString())
        say(f"{name}: calibrate, and compute what it must give")
        inputs = (TensorInfo(name=INPUT, shape=(-1, 3, size, size), dtype="float32"),)
        images = [pictures(CALIBRATION_IMAGES, size, CALIBRATION_SEED)]
        single = quantize(import_onnx(model, batch=1), open_data(images, inputs), CONFIG)
        logits, tensors = _references(single, size, plan, Path(scratch))
        file = bundle.reference_file(folder, name, size)
        file.parent.mkdir(exist_ok=True)
        np.savez(file, allow_pickle=False, logits=logits)
        macs = in_bounds_macs(zoo.build(name, image_size=size, depth=depth))
        assert macs is not None, name
        entries = []
        for batch in plan.batches:
            say(f"{name}: build for batch {batch}")
            again = quantize(import_onnx(model, batch=batch), single.table, CONFIG)
            built, recipes = _artifacts(store, again, batch, size, name, plan)
            entries.append(
                bundle.Entry(
                    network=name,
                    image_size=size,
                    batch=batch,
                    macs=macs,
                    target=target_config(plan.target),
                    digest=again.digest,
                    kernels=describe(built.calls, plan.target, tensors if batch == 1 else {}),
                    recipes=recipes,
                )
            )
    return entries


def _references(
    single: QuantizedModel, size: int, plan: Plan, scratch: Path
) -> tuple[np.ndarray, Mapping[str, np.ndarray]]:
    """Return the logits of as many images as a run reads, and the first one's integers by kernel.

    The logits are those of this computer's kernels, each image by itself. The oracle shares no
    code with them; where it is asked, its logits of the first image have to be the same.
    """
    images, here = pictures(max(plan.batches), size), native_target()
    built, artifact = compile_module(single.mod, here), scratch / "here.ri8"
    _save(artifact, built, single, 1, size, scratch)
    network = load(artifact)
    rows = [network.run({INPUT: image[None]})[OUTPUT] for image in images]
    logits = np.concatenate(rows)
    if not plan.oracle:
        return logits, {}
    from tests import reference

    tensors = reference.run(single.mod, {INPUT: images[:1]})
    (name,) = reference.output_names(single.mod, {INPUT: images[:1]})
    np.testing.assert_array_equal(logits[:1], tensors[name], err_msg="here and by the oracle")
    kernels = realized_integers(single.mod).items()
    return logits, {kernel: tensors[quantize] for quantize, kernel in kernels}


def _artifacts(
    store: Store, quantized: QuantizedModel, batch: int, size: int, name: str, plan: Plan
) -> tuple[Built, dict[str, Recipe]]:
    """Keep the artifact with a CUDA graph in it, and the one whose kernels can be told apart."""
    recipes = {}
    with tempfile.TemporaryDirectory() as scratch:
        forms = ("graph", "calls") if plan.kind == "cuda" else ("calls",)
        for form in forms:
            path, records = Path(scratch) / f"{form}.ri8", _records(plan)
            built = compile_module(
                quantized.mod,
                plan.target,
                records,
                plan.architectures,
                cuda_graphs=form == "graph",
            )
            _save(path, built, quantized, batch, size, Path(scratch))
            recipes[form] = store.add(path.read_bytes(), f"{name}-{size}")
    return built, {"graph": recipes["calls"]} | recipes


def _save(
    path: Path, built: Built, quantized: QuantizedModel, batch: int, size: int, scratch: Path
) -> None:
    library, target = scratch / "library.so", built.target
    tensors: dict[str, list[str]] = {}
    for call in built.calls:
        tensors.setdefault(call.function, []).append(call.name)
    built.export(library)
    shape = (batch, 3, size, size)
    manifest = Manifest(
        inputs=(TensorInfo(name=INPUT, shape=shape, dtype="float32"),),
        outputs=(TensorInfo(name=OUTPUT, shape=(batch, -1), dtype="float32"),),
        machine=machine(target),
        cpu_flags=needed_flags(target),
        target=target_config(target),
        model_digest=quantized.digest,
        settings=dataclasses.asdict(CONFIG),
        gpu=built.gpu.needs if built.gpu else None,
        gpu_code=built.gpu.to_dict(tensors) if built.gpu else {},
    )
    save_artifact(path, library.read_bytes(), manifest)


def _records(plan: Plan) -> Records | None:
    return Records(plan.tuning_logs, plan.target) if plan.tuning_logs else None
