"""The systems under test, in the order of their turns."""

from __future__ import annotations

import hashlib
import importlib
import shutil
from collections.abc import Container, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np

from benchmarks.subject import Inputs, Subject
from benchmarks.turn import Turn

Family = Literal["relay-int8", "ONNX Runtime", "OpenVINO", "float32"]
Goal = Literal["latency", "throughput"]
SOURCES = ("relay_int8", "schedules", "tuning_logs")
KINDS = (".py", ".json", ".jsonl")


class Running(Protocol):
    """A network, loaded for one batch and one number of threads."""

    def outputs(self) -> np.ndarray:
        """Run once and return the logits, float32 (batch, classes)."""

    def turn(self, seconds: float) -> Turn:
        """Run for ``seconds`` or a little longer."""


class Quantize(Protocol):
    """How a system makes the file that it loads."""

    def __call__(self, subject: Subject, model: Path, output: Path, batch: int) -> None:
        """Read the float32 ``model``, write ``output`` for ``batch`` at least."""


class Load(Protocol):
    """How a system loads that file, for the batch of ``inputs``."""

    def __call__(self, file: Path, inputs: Inputs, threads: int) -> Running:
        """Return the network ready to run on ``inputs``."""


@dataclass(frozen=True, kw_only=True)
class System:
    """A system under test. Its module is imported only in processes of its own.

    Parameters
    ----------
    name, family, goal
        Of a family the fastest system with a goal counts.
    quantizer, loader
        ``module:function`` of a :class:`Quantize` and a :class:`Load`.
    suffix
        Of the quantized file.
    packages
        Python distributions whose versions decide what the file holds, and are reported.
    own
        Whether this project's sources decide it too, and each batch has a file of its own.
    operator
        Only networks with such a node take part; all of them without one.
    """

    name: str
    family: Family
    goal: Goal
    quantizer: str
    loader: str
    suffix: str
    packages: tuple[str, ...]
    own: bool = False
    operator: str | None = None

    def quantize(self, subject: Subject, model: Path, file: Path, batch: int) -> None:
        """Write the quantized ``file``, and whatever belongs to it, or nothing."""
        partial = file.with_name(f"partial-{file.name}")
        cast(Quantize, _function(self.quantizer))(subject, model, partial, batch)
        for written in file.parent.glob(f"{partial.stem}.*"):  # OpenVINO writes .xml and .bin
            written.rename(written.with_name(written.name.removeprefix("partial-")))

    def load(self, file: Path, inputs: Inputs, threads: int) -> Running:
        """Return the network ready to run."""
        return cast(Load, _function(self.loader))(file, inputs, threads)

    def takes(self, operators: Container[str]) -> bool:
        """Return whether networks of such nodes take part."""
        return self.operator is None or self.operator in operators

    def file(self, subject: Subject, folder: Path, batch: int) -> Path:
        """Return where the quantized file lies; another version of anything has another name."""
        sha = hashlib.sha256(str([(name, version(name)) for name in self.packages]).encode())
        if self.own:
            sha.update(sources_sha256().encode())
        only = f"-b{batch}" if self.own or not subject.open else ""
        return folder / f"{subject.name}{only}-{sha.hexdigest()[:12]}{self.suffix}"


RELAY_INT8 = "benchmarks.relay_int8_system"
ONNXRUNTIME = "benchmarks.onnxruntime_int8"
OPENVINO = "benchmarks.openvino_int8"


def _openvino(quantizer: str, goal: Goal) -> System:
    nncf = quantizer == "NNCF"
    return System(
        name=f"OpenVINO {quantizer} {goal}",
        family="OpenVINO",
        goal=goal,
        quantizer=f"{OPENVINO if nncf else ONNXRUNTIME}:quantize",
        loader=f"{OPENVINO}:load_{goal}",
        suffix=".xml" if nncf else ".onnx",
        packages=("nncf", "openvino") if nncf else ("onnxruntime",),
    )


def _own(goal: Goal, loader: str) -> System:
    return System(
        name=f"relay-int8 {goal}",
        family="relay-int8",
        goal=goal,
        quantizer=f"{RELAY_INT8}:quantize",
        loader=f"{RELAY_INT8}:{loader}",
        suffix=".ri8",
        packages=("apache-tvm", "apache-tvm-ffi"),
        own=True,
    )


def _onnxruntime(goal: Goal, loader: str, *, dynamic: bool = False) -> System:
    return System(
        name=f"ONNX Runtime {'dynamic ' if dynamic else ''}{goal}",
        family="ONNX Runtime",
        goal=goal,
        quantizer=f"{ONNXRUNTIME}:quantize{'_dynamic' if dynamic else ''}",
        loader=f"{ONNXRUNTIME}:{loader}",
        suffix=".dynamic.onnx" if dynamic else ".onnx",
        packages=("onnxruntime",),
        operator="MatMul" if dynamic else None,
    )


def _float32(name: str, module: str, loader: str) -> System:
    return System(
        name=f"{name} float32",
        family="float32",
        goal="latency",
        quantizer="benchmarks.systems:keep_float32",
        loader=f"{module}:{loader}",
        suffix=".fp32.onnx",
        packages=(name.replace(" ", "").lower(),),
    )


def keep_float32(_subject: Subject, model: Path, output: Path, _batch: int) -> None:
    """Write the network as it is."""
    shutil.copy(model, output)


SYSTEMS: dict[str, System] = {
    "relay-int8-latency": _own("latency", "Latency"),
    "relay-int8-throughput": _own("throughput", "Throughput"),
    "onnxruntime-latency": _onnxruntime("latency", "Session"),
    "onnxruntime-throughput": _onnxruntime("throughput", "Streams"),
    "onnxruntime-dynamic-latency": _onnxruntime("latency", "Session", dynamic=True),
    "onnxruntime-dynamic-throughput": _onnxruntime("throughput", "Streams", dynamic=True),
    "onnxruntime-fp32": _float32("ONNX Runtime", ONNXRUNTIME, "Session"),
    "openvino-fp32": _float32("OpenVINO", OPENVINO, "load_float32"),
    "openvino-nncf-latency": _openvino("NNCF", "latency"),
    "openvino-nncf-throughput": _openvino("NNCF", "throughput"),
    "openvino-qdq-latency": _openvino("QDQ", "latency"),
    "openvino-qdq-throughput": _openvino("QDQ", "throughput"),
}
"""QDQ is the file that ONNX Runtime runs. Dynamic are products of matrices, so that networks of
convolutions alone take no part.

Latency: one run after the other, each by all threads. Throughput: as many at a time as there are
threads, or as OpenVINO finds best.
"""

INT8 = tuple(key for key, system in SYSTEMS.items() if system.family != "float32")
FLOAT32 = tuple(key for key in SYSTEMS if key not in INT8)
REFERENCE = "onnxruntime"  # the package that computes the float32 logits


def missing_packages(systems: Iterable[str]) -> list[str]:
    """Return which packages that ``systems`` need are not installed."""
    needed = {REFERENCE, *(name for key in systems for name in SYSTEMS[key].packages)}
    return sorted(name for name in needed if not _installed(name))


def versions(systems: Iterable[str]) -> dict[str, str]:
    """Return the version of every package that is measured, and of this project's sources."""
    packages = sorted({name for key in systems for name in SYSTEMS[key].packages})
    return {"relay-int8 sources": sources_sha256()[:12]} | {
        name: version(name) for name in packages
    }


def sources_sha256() -> str:
    """Return the hash of the compiler, its schedules and its tuning logs."""
    root = Path(__file__).parents[1]
    sha = hashlib.sha256()
    files = (path for name in SOURCES for path in (root / name).rglob("*"))
    for file in sorted(path for path in files if path.suffix in KINDS):
        sha.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return sha.hexdigest()


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _function(reference: str) -> object:
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
