"""OpenVINO: quantized by NNCF or by ONNX Runtime, for latency or for throughput."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Literal

import nncf
import numpy as np
import openvino

from benchmarks.subject import INPUT, Subject
from benchmarks.turns import Stopwatch, Turn, run_for

Hint = Literal["LATENCY", "THROUGHPUT"]


def quantize(subject: Subject, model: Path, output: Path, _batch: int) -> None:
    """Write the network as OpenVINO IR, quantized by NNCF's defaults, its batch open."""
    nncf.set_log_level(logging.ERROR)
    images = subject.calibration()
    quantized = nncf.quantize(
        openvino.Core().read_model(model),
        nncf.Dataset(images, lambda image: {INPUT: image}),
        target_device=nncf.TargetDevice.CPU,
        subset_size=len(images),
    )
    openvino.save_model(quantized, output, compress_to_fp16=False)


class Compiled:
    """A network in OpenVINO.

    With the hint LATENCY a turn is one request after the other. With THROUGHPUT as many requests
    are in flight as OpenVINO finds best, so that a turn says how many images a second come out, not
    how long one of them takes.
    """

    def __init__(self, file: Path, images: np.ndarray, threads: int, hint: Hint) -> None:
        core = openvino.Core()
        model = core.read_model(file)
        model.reshape({INPUT: images.shape})
        options = {"PERFORMANCE_HINT": hint, "INFERENCE_NUM_THREADS": threads}
        compiled = core.compile_model(model, "CPU", options)
        count = compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS")
        self._requests = [
            compiled.create_infer_request() for _ in range(count if hint == "THROUGHPUT" else 1)
        ]
        for request in self._requests:
            request.set_input_tensor(openvino.Tensor(images, shared_memory=True))

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        self._requests[0].infer()
        logits: np.ndarray = self._requests[0].get_output_tensor().data.copy()
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


def load_latency(file: Path, images: np.ndarray, threads: int) -> Compiled:
    """Load with the hint LATENCY."""
    return Compiled(file, images, threads, "LATENCY")


def load_throughput(file: Path, images: np.ndarray, threads: int) -> Compiled:
    """Load with the hint THROUGHPUT."""
    return Compiled(file, images, threads, "THROUGHPUT")
