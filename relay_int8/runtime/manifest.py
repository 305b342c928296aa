"""The manifest of an artifact: what it takes and gives, what it was made from, by and for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from relay_int8 import finite_json
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.field_types import require_types
from relay_int8.machine.gpu import GpuNeeds
from relay_int8.runtime.kernel_entry import KernelEntry
from relay_int8.runtime.weight_entry import WeightEntry
from relay_int8.version import __version__

FORMAT_VERSION = 4


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of an artifact, which its file holds beside the library.

    Parameters
    ----------
    inputs, outputs
        The network's tensors, in the order of the compiled function.
    machine
        ``platform.machine()`` of the computers it runs on, e.g. "x86_64".
    cpu_flags
        Flags of /proc/cpuinfo without which it must not run.
    target
        TVM target it was built for, as a dictionary.
    model_digest
        sha256 of the quantized model (plan, scales, weights): equal digests, equal integers.
    preprocessing
        How images become the input, as JSON; empty where data came as arrays.
    settings
        What the artifact was made with: configuration, calibration, source file.
    coverage
        Number of layers by what became of them, and the reasons of those that stayed float.
    max_batch
        The largest batch it takes, where its batch is open; None where shapes say it.
    gpu
        What it needs of a GPU and its driver; None if it runs on the CPU.
    gpu_code
        Registers and memory of each kernel by architecture; which a CUDA graph replays.
    memory
        "constant_bytes" of weights and tables, and "activation_bytes", which is what memory
        planning has reserved for tensors between kernels, at the largest batch. Inputs of a run,
        and outputs of an open batch, come on top.
    kernels
        Its kernel calls in the order of execution.
    weights
        Arrays that lie beside the library, and that its ``main`` takes behind the inputs.
    """

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    machine: str
    cpu_flags: tuple[str, ...]
    target: Mapping[str, Any]
    model_digest: str
    max_batch: int | None = None
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    coverage: Mapping[str, Any] = field(default_factory=dict)
    gpu: GpuNeeds | None = None
    gpu_code: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    kernels: tuple[KernelEntry, ...] = ()
    weights: tuple[WeightEntry, ...] = ()
    library_sha256: str = ""
    weights_sha256: str = ""
    tvm_version: str = field(default_factory=lambda: version("apache-tvm"))
    tvm_ffi_version: str = field(default_factory=lambda: version("apache-tvm-ffi"))
    project_version: str = __version__
    format_version: int = FORMAT_VERSION

    def to_json(self) -> str:
        """Return the manifest as JSON text, keys sorted, one a line."""
        values = dataclasses.asdict(self)
        return json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Return the manifest that :meth:`to_json` wrote."""
        values = finite_json.loads(text)
        for name in ("inputs", "outputs"):
            values[name] = tuple(_tensor_info(item) for item in values[name])
        if values["gpu"] is not None:
            architectures = tuple(values["gpu"]["architectures"])
            values["gpu"] = GpuNeeds(**values["gpu"] | {"architectures": architectures})
        values["kernels"] = tuple(map(_kernel_entry, values["kernels"]))
        values["weights"] = tuple(map(_weight_entry, values["weights"]))
        manifest = cls(**values | {"cpu_flags": tuple(values["cpu_flags"])})
        require_types(manifest)
        return manifest


def _kernel_entry(item: Mapping[str, Any]) -> KernelEntry:
    shape = item["shape"]
    return KernelEntry(**{**item, "shape": None if shape is None else tuple(shape)})


def _weight_entry(item: Mapping[str, Any]) -> WeightEntry:
    return WeightEntry(**{**item, "shape": tuple(item["shape"])})


def _tensor_info(item: Mapping[str, Any]) -> TensorInfo:
    valid = item["index_range"]
    return TensorInfo(
        name=item["name"],
        shape=tuple(item["shape"]),
        dtype=item["dtype"],
        index_range=None if valid is None else (int(valid[0]), int(valid[1])),
    )
