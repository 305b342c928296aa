"""A network with its images: what FP32, int8 and other tools make of it, and how good that is.

A folder holds ``evaluate.py``, which names the networks and yields their images (``NETWORKS``).
"""

from __future__ import annotations

import runpy
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from benchmarks.accuracy.segmentation import mean_iou, read_labels
from relay_int8 import QuantConfig, import_onnx
from relay_int8.api.float_network import compiled_network
from relay_int8.calibration import open_data
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.interface import open_inputs
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.metric import BoundMetric, ImageLabels
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from schedules.targets import native_target

Array = np.ndarray[Any, Any]
Outputs = list[Array]
Run = Callable[[dict[str, Array]], dict[str, Array]]

FACE = 0.7  # score from which UltraFace's users take an image to hold a face


@dataclass(frozen=True, kw_only=True)
class Score:
    """How good the outputs are.

    Parameters
    ----------
    metric
        Top-1; for a segmentation, mean intersection over union; for a detector, the fraction of
        images on which it agrees with FP32 that there is something.
    snr_db
        Of the outputs against FP32, over all images; the worst output's.
    seconds
        Of quantizing, by the clock on the wall.
    """

    metric: float
    snr_db: float
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.metric:.4f} {self.snr_db:5.1f} dB {self.seconds:5.1f} s"


@dataclass(frozen=True, kw_only=True)
class TimedRun:
    """What runs a quantized network, and the seconds that quantizing took."""

    run: Run
    seconds: float


class TrainedNetwork:
    """One network of the folder with its images and what FP32 makes of them.

    Parameters
    ----------
    network
        As ``evaluate.py`` describes it.
    splits
        Whose images calibrate, and whose are scored.
    """

    def __init__(self, network: Any, splits: tuple[str, str] = ("calib", "eval")) -> None:
        self._network = network
        self._splits = splits
        self.model = Path(network.path())
        self.input = str(import_onnx(self.model, batch=1)["main"].params[0].name)

    @cached_property
    def fp32(self) -> Outputs:
        """Outputs of the float network for the images that are scored."""
        mod = normalize()(import_onnx(self.model, batch=1))
        return self.outputs(compiled_network(mod, transient=True))

    def calibration(self) -> Iterator[Array]:
        """Yield the calibration images."""
        inputs: Iterator[Array] = self._network.inputs(self._splits[0], batch=1)
        return inputs

    def quantized(self, config: QuantConfig, *, by_metric: bool = False) -> TimedRun:
        """Return the integer network; its seconds are from the file, without its own kernels.

        ``by_metric``: chosen by the metric that scores it, on the calibration images.
        """
        metric = self._bound_metric() if by_metric else None
        start = time.perf_counter()
        mod = import_onnx(self.model, batch=1)
        model = quantize(mod, open_data(self.calibration, open_inputs(mod)), config, metric=metric)
        said = [*model.choices, *([model.metric_scores] if model.metric_scores else [])]
        for choice in said:
            print(f"{self.model.stem}: {choice}", file=sys.stderr, flush=True)
        seconds = time.perf_counter() - start
        return TimedRun(run=compiled(model, self.input), seconds=seconds)

    def of_peer(self, name: str) -> TimedRun:
        """Return another tool's network; its seconds are from the file to what runs."""
        quantize_peer = import_module("benchmarks.accuracy.peers").PEERS[name]
        inputs = ({self.input: image} for image in self.calibration())
        start = time.perf_counter()
        run = quantize_peer(self.model, inputs)
        return TimedRun(run=run, seconds=time.perf_counter() - start)

    def score(self, outputs: Outputs, seconds: float = 0.0) -> Score:
        """Return how good ``outputs`` are, as :meth:`outputs` gives them."""
        pairs = zip(self.fp32, outputs, strict=True)
        ratios = [snr_db(wanted, found) for wanted, found in pairs]
        return Score(
            metric=self._metric(outputs),
            snr_db=min(-np.inf if ratio is None else ratio for ratio in ratios),
            seconds=seconds,
        )

    def outputs(self, run: Run) -> Outputs:
        """Run every image to score; return each output with the images along its first axis."""
        images = (row[None] for batch in self._network.inputs(self._splits[1]) for row in batch)
        found = [run({self.input: image}).values() for image in images]
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def _metric(self, outputs: Outputs) -> float:
        first, reference = ([row[None] for row in each[0]] for each in (outputs, self.fp32))
        labels = self._labels(self._splits[1])
        return self._measure(first, reference if labels is None else labels)

    def _bound_metric(self) -> BoundMetric:
        """Return the same metric for the calibration images."""

        def _of_images(outputs: Iterator[dict[str, Array]], references: Iterator[Any]) -> float:
            first = [next(iter(y.values())) for y in outputs]
            others = [next(iter(y.values())) if isinstance(y, dict) else y for y in references]
            return self._measure(first, others)

        labels = self._labels(self._splits[0])
        return BoundMetric(function=_of_images, name="the metric", labels=labels)

    def _measure(self, first: Sequence[Array], references: ImageLabels) -> float:
        """Return the metric of first outputs of batch 1, beside labels or what FP32 gives."""
        if first[0].ndim == 3:
            same = [_has_face(y) == _has_face(x) for y, x in zip(first, references, strict=True)]
            return float(np.mean(same))
        if first[0].ndim == 4:  # a score for each class and pixel, of which the last is no class
            chosen = np.concatenate([y.argmax(axis=1) for y in first])
            return mean_iou(chosen, np.stack([*references]), first[0].shape[1] - 1)
        chosen = np.array([y[0, self._network.first_class :].argmax() for y in first])
        return float((chosen == np.asarray(references)).mean())

    def _labels(self, split: str) -> Array | None:
        """Return the labels of a split's images; None of a detector, compared with FP32."""
        if self.fp32[0].ndim == 3:
            return None
        if self.fp32[0].ndim == 4:
            return read_labels(self._images(), split)
        with np.load(self._images()) as data:
            labels: Array = data["label"][data[f"{split}_idx"]]
        return labels

    def _images(self) -> Path:
        return self.model.parent.parent / "images" / str(self._network.images)


def _has_face(y: Array) -> bool:
    """Say whether a detector sees one: (1, boxes, classes), of which class 0 is "nothing"."""
    return bool(y[0, :, 1].max() > FACE)


def compiled(model: QuantizedModel, name: str) -> Run:
    """Return what runs the integer network on this computer; ``name`` is its input's."""
    main = virtual_machine(compile_module(model.mod, native_target(), transient=True))["main"]

    def _run(inputs: dict[str, Array]) -> dict[str, Array]:
        found = main(tvm.runtime.tensor(np.ascontiguousarray(inputs[name])))
        tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
        return {str(place): tensor.numpy() for place, tensor in enumerate(tensors)}

    return _run


def open_networks(folder: Path) -> dict[str, Any]:
    """Return the networks that ``folder``/evaluate.py names."""
    networks: dict[str, Any] = runpy.run_path(str(folder / "evaluate.py"))["NETWORKS"]
    return networks
