"""The project itself, with the tuning logs that come with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

from benchmarks.subject import INPUT, Subject
from benchmarks.turns import Turn, run_for, run_together
from relay_int8.calibration import open_data
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.target import resolve_target
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import QuantizedModel
from relay_int8.quantization.quantize import quantize as quantize_module
from relay_int8.runtime.tvm_runtime import set_threads
from relay_int8.tuning.records import Records, shipped_logs

ONE_THREAD = ".one-thread"


def quantize(subject: Subject, model: Path, output: Path, batch: int) -> None:
    """Write the network as shared libraries for this computer; ranges are minimum and maximum."""
    size = subject.image_size
    inputs = (TensorInfo(name=INPUT, shape=(-1, 3, size, size), dtype="float32"),)
    quantized = quantize_module(
        import_onnx(model, batch=batch),
        open_data(subject.calibration(), inputs),
        QuantConfig(method="max", require_int8=True),
    )
    write_libraries(quantized, output)


def write_libraries(quantized: QuantizedModel, output: Path) -> None:
    """Compile a network for all cores, and for a single thread beside it."""
    for file, threads in ((output, None), (_one_thread(output), 1)):
        target = resolve_target("native", threads)
        compile_module(quantized.mod, target, Records(None, target, shipped_logs())).export(file)


def _one_thread(file: Path) -> Path:
    return file.with_suffix(f"{ONE_THREAD}{file.suffix}")


class Library:
    """A network on the Relax VM, as an artifact runs it: one run after the other."""

    def __init__(self, file: Path, images: np.ndarray, threads: int) -> None:
        self._main = _main(_one_thread(file) if threads == 1 else file, threads)
        self._images = tvm.runtime.tensor(images)

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        logits: np.ndarray = self._main(self._images).numpy()
        return logits

    def turn(self, seconds: float) -> Turn:
        """Run one after the other."""
        return run_for(seconds, lambda: self._main(self._images))


class Streams:
    """As many copies as there are threads, one thread each, as :class:`relay_int8.Streams` runs."""

    def __init__(self, file: Path, images: np.ndarray, threads: int) -> None:
        os.environ["TVM_NUM_THREADS"] = "1"  # of the pools of threads to come
        self._mains = [_main(_one_thread(file), 1) for _ in range(threads)]
        self._images = [tvm.runtime.tensor(images) for _ in self._mains]

    def outputs(self) -> np.ndarray:
        """Run one copy once and return the logits."""
        logits: np.ndarray = self._mains[0](self._images[0]).numpy()
        return logits

    def turn(self, seconds: float) -> Turn:
        """Run all copies at the same time."""
        pairs = zip(self._mains, self._images, strict=True)
        runs = [partial(main, images) for main, images in pairs]
        return run_together(seconds, runs)


def _main(library: Path, threads: int) -> Callable[[tvm.runtime.Tensor], tvm.runtime.Tensor]:
    """Return the compiled function, run by so many threads."""
    os.environ.setdefault("TVM_BIND_THREADS", "0")  # as relay_int8.runtime.module does
    set_threads(threads)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())
    main: Callable[[tvm.runtime.Tensor], tvm.runtime.Tensor] = machine["main"]
    return main
