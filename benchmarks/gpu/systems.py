"""The systems under test on a GPU, in the order of their turns."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np

from benchmarks.gpu.device import Kind
from benchmarks.gpu.turns import GpuTurn

Source = Literal["graph", "calls", "onnx"]


class Running(Protocol):
    """A network on a device, loaded for one batch."""

    def outputs(self) -> np.ndarray:
        """Run once and return the logits, float32 (batch, classes)."""

    def turn(self, seconds: float) -> GpuTurn:
        """Run for ``seconds`` or a little longer."""


class Load(Protocol):
    """How a system makes a network from a file."""

    def __call__(self, file: Path, images: np.ndarray, kind: Kind) -> Running:
        """Return the network ready to run on ``images``, which lie on the device already."""


@dataclass(frozen=True, kw_only=True)
class GpuSystem:
    """A system under test. Its module is imported only in processes of its own.

    Parameters
    ----------
    name
        As tables have it.
    loader
        ``module:function`` of a :class:`Load`.
    source
        What it reads: an artifact of this project, with a CUDA graph in it or without, or the float
        network as ONNX.
    package
        What it needs beside this project, and whose version is reported.
    kind
        Where it runs.
    """

    name: str
    loader: str
    source: Source
    package: str = ""
    kind: Kind = "cuda"

    def load(self, file: Path, images: np.ndarray, threads: int) -> Running:
        """Return the network ready to run."""
        module, _, name = self.loader.partition(":")
        load = cast(Load, getattr(importlib.import_module(module), name))
        return load(file, images, self.kind)

    def missing(self) -> str | None:
        """Say which package is not installed, or None."""
        needed = {self.package, "onnx" if self.source == "onnx" else ""} - {""}
        gone = sorted(name for name in needed if importlib.util.find_spec(name) is None)
        return f"not installed: {', '.join(gone)}" if gone else None

    @property
    def is_own(self) -> bool:
        """Whether it is this project's, and its integers are known."""
        return self.source != "onnx"


_NETWORK, _TORCH = "benchmarks.gpu.network", "benchmarks.gpu.pytorch"
SYSTEMS: dict[str, GpuSystem] = {
    "relay-int8": GpuSystem(name="int8 here", loader=f"{_NETWORK}:load", source="graph"),
    "relay-int8-captured": GpuSystem(
        name="int8 here, captured whole", loader=f"{_NETWORK}:load_captured", source="calls"
    ),
    "relay-int8-calls": GpuSystem(
        name="int8 here, call by call", loader=f"{_NETWORK}:load", source="calls"
    ),
    "torch-fp32": GpuSystem(
        name="PyTorch fp32", loader=f"{_TORCH}:load_fp32", source="onnx", package="torch"
    ),
    "torch-fp16-graph": GpuSystem(
        name="PyTorch fp16 channels-last, CUDA graph",
        loader=f"{_TORCH}:load_fp16_graph",
        source="onnx",
        package="torch",
    ),
    "torch-compile": GpuSystem(
        name="torch.compile fp16 channels-last",
        loader=f"{_TORCH}:load_compiled",
        source="onnx",
        package="torch",
    ),
    "torch-autotune": GpuSystem(
        name="torch.compile max-autotune, fp16 channels-last",
        loader=f"{_TORCH}:load_autotuned",
        source="onnx",
        package="torch",
    ),
    "tensorrt-int8": GpuSystem(
        name="TensorRT int8",
        loader="benchmarks.gpu.tensorrt_int8:load",
        source="onnx",
        package="tensorrt",
    ),
}
"""All but TensorRT's are this project's or PyTorch's; the graph of "int8 here" is TVM's."""
OWN = "relay-int8"
DEFAULT = tuple(key for key in SYSTEMS if key != "torch-autotune")


def versions(keys: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of what is measured, where it is installed."""
    found = {}
    for name in {SYSTEMS[key].package for key in keys if SYSTEMS[key].package}:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
