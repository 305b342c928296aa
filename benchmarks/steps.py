"""Steps of a comparison on the processor in processes of their own, before systems take turns."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import numpy as np
import onnx

from benchmarks.macs import in_bounds_macs
from benchmarks.subject import Inputs, Subject
from benchmarks.systems import SYSTEMS


def quantize(key: str, subject: Subject, model: Path, file: Path, batch: int) -> None:
    """Quantize for one system."""
    with contextlib.redirect_stdout(io.StringIO()):  # progress bars
        SYSTEMS[key].quantize(subject, model, file, batch)


def macs(subject: Subject) -> int | None:
    """Return the in-bounds multiplications of one image, None where they are not known."""
    return in_bounds_macs(subject.model(batch=1))


def operators(model: Path) -> set[str]:
    """Return the types of the nodes."""
    return {node.op_type for node in onnx.load(model).graph.node}


def float_logits(model: Path, inputs: Inputs) -> np.ndarray:
    """Return what the float32 network says, computed by ONNX Runtime."""
    from benchmarks.onnxruntime_int8 import Session

    return Session(model, inputs, threads=1).outputs()


def integer_peak(core: int) -> float | None:
    """Return what :func:`benchmarks.peak.integer_peak` measures."""
    from benchmarks import peak

    return peak.integer_peak(core)
