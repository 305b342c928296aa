"""TensorRT int8 on the same graph, quantized as its documentation asks.

ONNX Runtime's quantizer writes Q/DQ pairs: symmetric int8, weights per channel with a pair of their
own, biases in float. The engine may use int8, fp16 and fp32 as it finds fastest. Written for
TensorRT 10; where a later one has no precision flags, the file's types alone decide.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import tensorrt
from onnxruntime import quantization

from benchmarks.gpu.device import CudaDevice, Kind
from benchmarks.gpu.pictures import CALIBRATION_SEED, pictures
from benchmarks.gpu.turns import GpuTurn, take_turn
from benchmarks.static_quantization import ImageReader, write_qdq
from relay_int8.machine.cuda_driver import DriverError

CALIBRATION_IMAGES = 8
PRECISIONS = ("INT8", "FP16")


class Engine:
    """A network in TensorRT, its input and output in the GPU's memory."""

    def __init__(self, plan: bytes, images: np.ndarray, device: CudaDevice) -> None:
        self._device, self._driver, self._kept = device, device.driver, ExitStack()
        driver = device.driver
        logger = tensorrt.Logger(tensorrt.Logger.ERROR)
        self._runtime = tensorrt.Runtime(logger)  # an engine must not outlive it
        self._engine = self._runtime.deserialize_cuda_engine(plan)
        self._context = self._engine.create_execution_context()
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        addresses = {}
        for name in names:
            size = 4 * int(np.prod(self._context.get_tensor_shape(name)))
            addresses[name] = self._kept.enter_context(driver.memory(size))
            self._context.set_tensor_address(name, addresses[name].value)
        is_input = {
            name: self._engine.get_tensor_mode(name) == tensorrt.TensorIOMode.INPUT
            for name in names
        }
        (source,) = (name for name in names if is_input[name])
        (output,) = (name for name in names if not is_input[name])
        driver.write(addresses[source], np.ascontiguousarray(images, np.float32).tobytes())
        self._shape = tuple(self._context.get_tensor_shape(output))
        self._result = addresses[output]
        self._enqueue()
        driver.synchronize()
        self._run: Callable[[], object] = driver.capture(self._enqueue)

    def _enqueue(self) -> None:
        if not self._context.execute_async_v3(self._device.capture_stream):
            raise RuntimeError("TensorRT cannot enqueue the network; see standard error")

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        self._run()
        found = self._driver.read(self._result, 4 * int(np.prod(self._shape)))
        return np.frombuffer(found, np.float32).reshape(self._shape)

    def turn(self, seconds: float) -> GpuTurn:
        """Run for ``seconds`` or a little longer."""
        return take_turn(self._device, self._run, seconds)


def load(file: Path, images: np.ndarray, kind: Kind) -> Engine:
    """Return the network as one CUDA graph; building the engine takes minutes."""
    if kind != "cuda":
        raise DriverError("TensorRT has no networks for a processor")
    with tempfile.TemporaryDirectory() as folder:
        quantized = Path(folder) / "quantized.onnx"
        quantize(file, quantized, images.shape)
        plan = build_engine(quantized)
    return Engine(plan, images, CudaDevice())


def quantize(model: Path, output: Path, shape: tuple[int, ...]) -> None:
    """Write the network with the Q/DQ pairs that TensorRT reads; ranges are minimum and maximum.

    ``shape`` is that of its input; it is calibrated with whole batches.
    """
    batches = -(-CALIBRATION_IMAGES // shape[0])
    images = pictures(batches * shape[0], shape[-1], CALIBRATION_SEED)
    write_qdq(
        model,
        output,
        ImageReader("input", images.reshape(batches, *shape)),
        quantization.QuantType.QInt8,
        {
            "ActivationSymmetric": True,
            "WeightSymmetric": True,
            "AddQDQPairToWeight": True,
            "QuantizeBias": False,
        },
    )


def build_engine(model: Path) -> bytes:
    """Return the plan of a Q/DQ network."""
    logger = tensorrt.Logger(tensorrt.Logger.ERROR)
    builder = tensorrt.Builder(logger)
    network, config = builder.create_network(0), builder.create_builder_config()
    parser = tensorrt.OnnxParser(network, logger)
    if not parser.parse_from_file(str(model)):
        errors = "; ".join(str(parser.get_error(i)) for i in range(parser.num_errors))
        raise RuntimeError(f"TensorRT cannot read the network: {errors}")
    for name in PRECISIONS:
        flag = getattr(tensorrt.BuilderFlag, name, None)
        if flag is not None:
            config.set_flag(flag)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise RuntimeError("TensorRT cannot build the network; see standard error")
    return bytes(plan)
