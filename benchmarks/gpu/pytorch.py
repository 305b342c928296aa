"""PyTorch, as fast as it is without other packages, on the very graph that is quantized.

The network is the zoo's ONNX file, node by node, so that all of them are there (torchvision has no
DRN) and nothing differs but who computes. Batch norms are folded into convolutions first, in
float64: less work than PyTorch has by itself. cuDNN tries its algorithms once (``benchmark``); in
fp32 convolutions may use TF32, PyTorch's default.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

from benchmarks.gpu.device import Device, Kind, open_device
from benchmarks.gpu.turns import GpuTurn, take_turn

WARM_UP = 3  # runs before a capture: cuDNN chooses, memory is allocated
AUTOTUNE = "max-autotune-no-cudagraphs"


class Graph(torch.nn.Module):  # type: ignore[misc]
    """A float network of the zoo."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__()
        constants = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        nodes = _folded(list(model.graph.node), constants)
        self._input = model.graph.input[0].name
        self._output = model.graph.output[0].name
        self._steps: list[tuple[Callable[..., torch.Tensor], tuple[str, ...], str]] = []
        self._names: dict[str, str] = {}
        for node in nodes:
            inputs = [name for name in node.input if name not in constants]
            weights = [name for name in node.input if name in constants]
            step = _OPERATORS[node.op_type]
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Clip":
                attributes["bounds"] = tuple(float(constants[name]) for name in weights)
            else:
                inputs += weights
                for name in weights:
                    self._keep(name, constants[name])
            self._steps.append((step(attributes), tuple(inputs), node.output[0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        values = {name: getattr(self, buffer) for name, buffer in self._names.items()}
        values[self._input] = x
        for step, inputs, output in self._steps:
            values[output] = step(*(values[name] for name in inputs))
        return values[self._output]

    def _keep(self, name: str, array: np.ndarray) -> None:
        buffer = name.replace(".", "_")
        self.register_buffer(buffer, torch.from_numpy(np.array(array, np.float32)))
        self._names[name] = buffer


def _folded(nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    """Return the nodes without batch norms; ``constants`` get the convolutions' new weights."""
    made_by = {node.output[0]: node for node in nodes if node.op_type == "Conv"}
    kept = []
    for node in nodes:
        if node.op_type != "BatchNormalization":
            kept.append(node)
            continue
        conv = made_by[node.input[0]]
        gamma, beta, mean, variance = (constants[name].astype("f8") for name in node.input[1:5])
        epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
        factor = gamma / np.sqrt(variance + epsilon)
        weight = constants[conv.input[1]].astype("f8") * factor[:, None, None, None]
        bias = constants[conv.input[2]].astype("f8") if len(conv.input) > 2 else 0.0
        names = [f"{conv.input[1]}.folded", f"{conv.input[1]}.bias"]
        constants[names[0]], constants[names[1]] = weight, beta + (bias - mean) * factor
        folded = onnx.NodeProto()
        folded.CopyFrom(conv)
        del folded.input[1:], folded.output[:]
        folded.input.extend(names)
        folded.output.append(node.output[0])
        kept[kept.index(conv)] = folded
    return kept


Attributes = dict[str, Any]
Step = Callable[..., torch.Tensor]


def _conv(attributes: Attributes) -> Step:
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    assert (top, left) == (bottom, right), "the zoo pads both sides alike"
    options = {
        "stride": tuple(attributes.get("strides", (1, 1))),
        "padding": (top, left),
        "dilation": tuple(attributes.get("dilations", (1, 1))),
        "groups": attributes.get("group", 1),
    }
    return lambda x, w, b=None: F.conv2d(x, w, b, **options)


def _pool(pool: Callable[..., torch.Tensor]) -> Callable[[Attributes], Step]:
    def _step(attributes: Attributes) -> Step:
        options = {
            "kernel_size": tuple(attributes["kernel_shape"]),
            "stride": tuple(attributes["strides"]),
            "padding": tuple(attributes["pads"][:2]),
        }
        return lambda x: pool(x, **options)

    return _step


def _clip(attributes: Attributes) -> Step:
    low, high = attributes["bounds"]
    return lambda x: torch.clamp(x, low, high)


def _always(step: Step) -> Callable[[Attributes], Step]:
    return lambda _attributes: step


_OPERATORS: dict[str, Callable[[Attributes], Step]] = {
    "Conv": _conv,
    "Relu": _always(torch.relu),
    "Clip": _clip,
    "MaxPool": _pool(F.max_pool2d),
    "AveragePool": _pool(F.avg_pool2d),  # counts the padding, as the zoo asks
    "GlobalAveragePool": _always(lambda x: x.mean((2, 3), keepdim=True)),
    "Add": _always(torch.add),
    "Concat": _always(lambda *parts: torch.cat(parts, 1)),
    "Flatten": _always(lambda x: torch.flatten(x, 1)),
    "Gemm": _always(F.linear),
}


class TorchNetwork:
    """A float network on a device; ``run`` enqueues one run and returns what it will have made."""

    def __init__(self, device: Device, run: Callable[[], torch.Tensor]) -> None:
        self.device, self._run = device, run

    def outputs(self) -> np.ndarray:
        """Run once and return the logits."""
        with torch.inference_mode():
            logits = self._run()
            self.device.synchronize()
            found: np.ndarray = logits.float().cpu().numpy()
        return found

    def turn(self, seconds: float) -> GpuTurn:
        """Run for ``seconds`` or a little longer."""
        with torch.inference_mode():
            return take_turn(self.device, self._run, seconds)


def load_fp32(file: Path, images: np.ndarray, kind: Kind) -> TorchNetwork:
    """Return the network in float32, call by call."""
    device, model, x = _on_device(file, images, kind, torch.float32)
    return TorchNetwork(device, _eager(device, model, x))


def load_fp16_graph(file: Path, images: np.ndarray, kind: Kind) -> TorchNetwork:
    """Return the network in float16, channels last, as one CUDA graph."""
    device, model, x = _on_device(file, images, kind, torch.float16)
    return TorchNetwork(device, _captured(device, _eager(device, model, x)))


def load_compiled(file: Path, images: np.ndarray, kind: Kind) -> TorchNetwork:
    """Return the network in float16, channels last, by torch.compile, as one CUDA graph.

    The graph is captured here and not by torch.compile, which would copy the input every time.
    """
    return _compiled(file, images, kind, "default")


def load_autotuned(file: Path, images: np.ndarray, kind: Kind) -> TorchNetwork:
    """Return the same with torch.compile's longest search: minutes for a network."""
    return _compiled(file, images, kind, AUTOTUNE)


def _compiled(file: Path, images: np.ndarray, kind: Kind, mode: str) -> TorchNetwork:
    device, model, x = _on_device(file, images, kind, torch.float16)
    compiled = torch.compile(model, mode=mode)
    return TorchNetwork(device, _captured(device, _eager(device, compiled, x)))


def _on_device(
    file: Path, images: np.ndarray, kind: Kind, dtype: torch.dtype
) -> tuple[Device, torch.nn.Module, torch.Tensor]:
    """Return device, network and images there; float16 is channels last."""
    device = open_device(kind)
    torch.backends.cudnn.benchmark = True
    layout = torch.channels_last if dtype == torch.float16 else torch.contiguous_format
    model = Graph(onnx.load(str(file))).eval().to(kind, dtype)
    model = model.to(memory_format=layout)
    x = torch.from_numpy(images).to(kind, dtype).to(memory_format=layout)
    return device, model, x


def _eager(
    device: Device, model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor
) -> Callable[[], torch.Tensor]:
    """Return a function that enqueues a run; what is chosen and compiled, is by then."""
    with torch.inference_mode():
        for _ in range(WARM_UP):
            model(x)
        device.synchronize()
    return lambda: model(x)


def _captured(device: Device, run: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Return a function that replays one run as a CUDA graph, and gives the same result tensor."""
    if device.kind != "cuda":
        return run
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        result = run()

    def _replay() -> torch.Tensor:
        graph.replay()
        return result

    return _replay
