"""ONNX Runtime: static quantization to QDQ, weights s8 per channel, activations u8."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.subject import BATCH, INPUT, Subject
from benchmarks.turns import Turn, run_for, run_together


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, images: list[np.ndarray]) -> None:
        self._images: Iterator[np.ndarray] = iter(images)

    def get_next(self) -> dict[str, np.ndarray] | None:
        image = next(self._images, None)
        return None if image is None else {INPUT: image}


def quantize(subject: Subject, model: Path, output: Path, _batch: int) -> None:
    """Write the network as QDQ ONNX, its batch open.

    Ranges are minimum and maximum. Activations are u8 with a zero point, the type that ONNX
    Runtime's VNNI kernels want.
    """
    logging.getLogger().setLevel(logging.ERROR)  # it advises to do what is done here
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_static(
            str(prepared),
            str(output),
            _Reader(subject.calibration()),
            quant_format=quantization.QuantFormat.QDQ,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
            calibrate_method=quantization.CalibrationMethod.MinMax,
        )


class Session:
    """A network in ONNX Runtime; its threads spin between runs, as they do by default."""

    def __init__(self, file: Path, images: np.ndarray, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_free_dimension_override_by_name(BATCH, len(images))
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self._images = images
        self._binding = self._bound()

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        self._session.run_with_iobinding(self._binding)
        logits: np.ndarray = self._binding.copy_outputs_to_cpu()[0]
        return logits

    def turn(self, seconds: float) -> Turn:
        """Run one after the other."""
        return run_for(seconds, lambda: self._session.run_with_iobinding(self._binding))

    def _bound(self) -> onnxruntime.IOBinding:
        binding = self._session.io_binding()
        binding.bind_cpu_input(INPUT, self._images)
        binding.bind_output(self._session.get_outputs()[0].name)
        return binding


class Streams(Session):
    """A session of one thread that as many threads as asked for run at the same time."""

    def __init__(self, file: Path, images: np.ndarray, threads: int) -> None:
        super().__init__(file, images, 1)
        self._bindings = [self._bound() for _ in range(threads)]

    def turn(self, seconds: float) -> Turn:
        """Run all at the same time."""
        run = self._session.run_with_iobinding
        return run_together(seconds, [partial(run, binding) for binding in self._bindings])
