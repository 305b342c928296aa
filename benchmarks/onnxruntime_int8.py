"""ONNX Runtime: static quantization to QDQ, weights s8 per channel, activations u8; or dynamic."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process

from benchmarks.static_quantization import InputReader, write_qdq
from benchmarks.subject import BATCH, Inputs, Subject
from benchmarks.turn import Turn, run_for, run_together


def quantize(subject: Subject, model: Path, output: Path, batch: int) -> None:
    """Write the network as QDQ ONNX, its batch as open as that of ``model``.

    Ranges are minimum and maximum. Activations are u8 with a zero point, the type that ONNX
    Runtime's VNNI kernels want.
    """
    reader = InputReader(subject.calibration(batch))
    write_qdq(model, output, reader, quantization.QuantType.QUInt8)


def quantize_dynamic(_subject: Subject, model: Path, output: Path, _batch: int) -> None:
    """Write the network with matrix products in integers, whose activations are ranged as it runs.

    Convolutions stay in float: ONNX Runtime has no integer ones for weights of s8.
    """
    with tempfile.TemporaryDirectory() as folder:
        prepared = Path(folder) / "prepared.onnx"
        quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantization.quantize_dynamic(
            str(prepared),
            str(output),
            op_types_to_quantize=["MatMul"],
            weight_type=quantization.QuantType.QInt8,
            per_channel=True,
        )


def run_file(model: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return what runs a file with ONNX Runtime's defaults."""
    session = onnxruntime.InferenceSession(model.read_bytes())
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


class Session:
    """A network in ONNX Runtime; its threads spin between runs, as they do by default."""

    def __init__(self, file: Path, inputs: Inputs, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_free_dimension_override_by_name(BATCH, len(next(iter(inputs.values()))))
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = inputs
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
        for name, array in self._inputs.items():
            binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():  # what is not asked for is not computed
            binding.bind_output(output.name)
        return binding


class Streams(Session):
    """A session of one thread that as many threads as asked for run at the same time."""

    def __init__(self, file: Path, inputs: Inputs, threads: int) -> None:
        super().__init__(file, inputs, 1)
        self._bindings = [self._bound() for _ in range(threads)]

    def turn(self, seconds: float) -> Turn:
        """Run all at the same time."""
        run = self._session.run_with_iobinding
        return run_together(seconds, [partial(run, binding) for binding in self._bindings])
