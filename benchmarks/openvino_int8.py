"""OpenVINO: quantized by NNCF or by ONNX Runtime, for latency or for throughput."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

import nncf
import numpy as np
import onnx
import openvino

from benchmarks.macs import has_attention
from benchmarks.subject import Inputs, Subject
from benchmarks.turn import Stopwatch, Turn, run_for

Hint = Literal["LATENCY", "THROUGHPUT"]


def quantize(subject: Subject, model: Path, output: Path, batch: int) -> None:
    """Write the network as OpenVINO IR, its batch as open as that of ``model``.

    Quantized by NNCF's defaults, with its type of model for transformers where there is attention.
    """
    nncf.set_log_level(logging.ERROR)
    inputs = subject.calibration(batch)
    quantized = nncf.quantize(
        openvino.Core().read_model(model),
        nncf.Dataset(inputs),
        target_device=nncf.TargetDevice.CPU,
        model_type=nncf.ModelType.TRANSFORMER if has_attention(onnx.load(model)) else None,
        subset_size=len(inputs),
    )
    openvino.save_model(quantized, output, compress_to_fp16=False)


class Compiled:
    """A network in OpenVINO.

    With the hint LATENCY a turn is one request after the other. With THROUGHPUT as many requests
    are in flight as OpenVINO finds best, so that a turn says how many images a second come out, not
    how long one of them takes.
    """

    def __init__(
        self, file: Path, inputs: Inputs, threads: int, hint: Hint, precision: str | None = None
    ) -> None:
        core = openvino.Core()
        model = core.read_model(file)
        model.reshape({name: array.shape for name, array in inputs.items()})
        options: dict[str, object] = {
            "PERFORMANCE_HINT": hint,
            "INFERENCE_NUM_THREADS": threads,
        }
        if precision:
            options["INFERENCE_PRECISION_HINT"] = precision
        compiled = core.compile_model(model, "CPU", options)
        count = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = [
            compiled.create_infer_request() for _ in range(count if hint == "THROUGHPUT" else 1)
        ]
        for request in self._requests:
            for name, array in inputs.items():
                request.set_tensor(name, openvino.Tensor(array, shared_memory=True))

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        self._requests[0].infer()
        logits: np.ndarray = self._requests[0].get_output_tensor(0).data.copy()
        return logits

    def turn(self, seconds: float) -> Turn:
        """Run one after the other, or with all requests in flight."""
        if len(self._requests) == 1:
            return run_for(seconds, self._requests[0].infer)
        watch, runs = Stopwatch(), len(self._requests)
        for request in self._requests:
            request.start_async()
        while watch.wall_s < seconds:
            for request in self._requests:
                request.wait()
                request.start_async()
            runs += len(self._requests)
        for request in self._requests:
            request.wait()
        return watch.stop(runs)


def load_latency(file: Path, inputs: Inputs, threads: int) -> Compiled:
    """Load with the hint LATENCY."""
    return Compiled(file, inputs, threads, "LATENCY")


def load_float32(file: Path, inputs: Inputs, threads: int) -> Compiled:
    """Load with the hint LATENCY, in float32.

    Where a CPU multiplies bfloat16, OpenVINO takes that for float networks unless it is told.
    """
    return Compiled(file, inputs, threads, "LATENCY", "f32")


def load_throughput(file: Path, inputs: Inputs, threads: int) -> Compiled:
    """Load with the hint THROUGHPUT."""
    return Compiled(file, inputs, threads, "THROUGHPUT")
