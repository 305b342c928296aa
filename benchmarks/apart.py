"""Work in a process that ends with it: memory and threads of one system never meet another's."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

import numpy as np

from benchmarks.macs import in_bounds_macs
from benchmarks.subject import Subject
from benchmarks.systems import SYSTEMS

P = ParamSpec("P")
R = TypeVar("R")


def call(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what ``work`` returns in a new process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def quantize(key: str, subject: Subject, model: Path, file: Path, batch: int) -> str:
    """Quantize for one system; return why that failed, or nothing."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # progress bars
            SYSTEMS[key].quantize(subject, model, file, batch)
    except Exception as error:  # another system's errors are of any type; all of them are reported
        return f"{type(error).__name__}: {error}"
    return ""


def macs(subject: Subject) -> int:
    """Return the in-bounds multiplications of one image."""
    return in_bounds_macs(subject.model(batch=1))


def float_logits(model: Path, images: np.ndarray) -> np.ndarray:
    """Return what the float32 network says, computed by ONNX Runtime."""
    from benchmarks.onnxruntime_int8 import Session

    return Session(model, images, threads=1).outputs()


def vpdpbusd_peak(core: int) -> float | None:
    """Return what :func:`benchmarks.peak.vpdpbusd_peak` measures."""
    from benchmarks import peak

    return peak.vpdpbusd_peak(core)
