"""What int8 costs in accuracy: every method and tool on every network, beside other tools.

The folder holds ``evaluate.py``, which names the networks and yields their images (``NETWORKS``);
ranges come from its calibration split, scores from its evaluation split, or with ``--swap`` the
other way round. A cell is the top-1 accuracy (of a detector, how often it agrees with FP32 that
there is something) and the signal-to-noise ratio of the least exact output against FP32.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from relay_int8 import QuantConfig, float_network, graph, import_onnx
from relay_int8.analysis.accuracy import snr_db
from relay_int8.artifact import TensorInfo
from relay_int8.build import build, virtual_machine
from relay_int8.calibration import METHODS, open_data
from relay_int8.config import Tools
from relay_int8.host import cpu_flags
from relay_int8.quantize import quantize
from schedules.targets import native_target

Array = np.ndarray[Any, Any]
Outputs = list[Array]
Run = Callable[[dict[str, Array]], dict[str, Array]]

FACE = 0.7  # score from which UltraFace's users take an image to hold a face
ROWS: Mapping[str, QuantConfig] = {
    **{f"method {name}": QuantConfig(method=name) for name in METHODS},
    "uncorrected": QuantConfig(bias_correction=False),
    "symmetric": QuantConfig(preset="int8-symmetric"),
    "asymmetric": QuantConfig(preset="int8-asymmetric"),
    "cross-layer": QuantConfig(tools=Tools(equalization="cross-layer")),
    "smooth": QuantConfig(tools=Tools(equalization="smooth")),
    "output-error": QuantConfig(tools=Tools(thresholds="output-error")),
    "empirical": QuantConfig(tools=Tools(correction="empirical")),
    "adaround": QuantConfig(tools=Tools(correction="empirical", rounding="adaround")),
    "descent": QuantConfig(tools=Tools(correction="empirical", rounding="descent")),
    "accurate": QuantConfig(preset="int8-accurate"),
    "auto": QuantConfig(preset="auto"),
}
"""What this project can do; the default is ``method max``."""
PEERS = ("ONNX Runtime MinMax", "ONNX Runtime Entropy", "NNCF")
"""Other tools, with their defaults (``benchmarks.accuracy_peers``)."""
BRIEF = (
    "method max",
    "method mse",
    "method percentile",
    "method kl-tensorrt",
    *(name for name in ROWS if not name.startswith("method ")),
    *PEERS,
)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How good the outputs are.

    Parameters
    ----------
    metric
        Top-1; for a detector, the fraction of images on which it agrees with FP32 that there is
        something.
    snr_db
        Of the outputs against FP32, over all images; the worst output's.
    """

    metric: float
    snr_db: float

    def __str__(self) -> str:
        return f"{self.metric:.4f} {self.snr_db:5.1f} dB"


class Subject:
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
        self._mod = import_onnx(self.model, batch=1)
        self._input = str(self._mod["main"].params[0].name)
        self.fp32 = self.outputs(float_network(self.model, batch=1))

    def calibration(self) -> Iterator[Array]:
        """Yield the calibration images."""
        inputs: Iterator[Array] = self._network.inputs(self._splits[0], batch=1)
        return inputs

    def quantized(self, config: QuantConfig) -> Outputs:
        """Return the outputs of the compiled integer network for the images that are scored."""
        infos = [
            TensorInfo(
                name=str(param.name), shape=(-1, *graph.shape(param)[1:]), dtype=graph.dtype(param)
            )
            for param in self._mod["main"].params
        ]
        model = quantize(self._mod, open_data(self.calibration, infos), config)
        main = virtual_machine(build(model, native_target(cpu_flags())))["main"]

        def run(inputs: dict[str, Array]) -> dict[str, Array]:
            found = main(tvm.runtime.tensor(np.ascontiguousarray(inputs[self._input])))
            tensors = [found] if isinstance(found, tvm.runtime.Tensor) else list(found)
            return {str(place): tensor.numpy() for place, tensor in enumerate(tensors)}

        return self.outputs(run)

    def of_peer(self, name: str) -> Outputs:
        """Return the outputs of another tool's network."""
        quantized = import_module("benchmarks.accuracy_peers").PEERS[name]
        return self.outputs(quantized(self.model, self._input, self.calibration()))

    def score(self, outputs: Outputs) -> Score:
        """Return how good ``outputs`` are, as :meth:`quantized` gives them."""
        pairs = zip(self.fp32, outputs, strict=True)
        ratios = [snr_db(wanted, found) for wanted, found in pairs]
        return Score(
            metric=self._metric(outputs),
            snr_db=min(-np.inf if ratio is None else ratio for ratio in ratios),
        )

    def outputs(self, run: Run) -> Outputs:
        """Run every image to score; return each output with the images along its first axis."""
        images = (row[None] for batch in self._network.inputs(self._splits[1]) for row in batch)
        found = [run({self._input: image}).values() for image in images]
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def _metric(self, outputs: Outputs) -> float:
        first, reference = outputs[0], self.fp32[0]
        if first.ndim == 3:  # boxes: (images, boxes, classes), class 0 is "nothing"
            same = (first[:, :, 1].max(axis=1) > FACE) == (reference[:, :, 1].max(axis=1) > FACE)
            return float(same.mean())
        chosen = first[:, self._network.first_class :].argmax(axis=1)
        return float((chosen == self._labels()).mean())

    def _labels(self) -> Array:
        with np.load(self.model.parent.parent / "images" / self._network.images) as data:
            labels: Array = data["label"][data[f"{self._splits[1]}_idx"]]
        return labels


def open_networks(folder: Path) -> dict[str, Any]:
    """Return the networks that ``folder``/evaluate.py names."""
    networks: dict[str, Any] = runpy.run_path(str(folder / "evaluate.py"))["NETWORKS"]
    return networks


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    options = _parser().parse_args(arguments)
    networks = open_networks(options.data)
    unknown = set(options.networks or ()).difference(networks)
    if unknown:
        print(f"{', '.join(sorted(unknown))}: there are {', '.join(networks)}", file=sys.stderr)
        return 2
    names = options.networks or list(networks)
    rows = [*ROWS, *PEERS] if options.all else options.rows
    for splits in [("calib", "eval"), ("eval", "calib")][: 2 if options.swap else 1]:
        columns = [_column(name, Subject(networks[name], splits), rows) for name in names]
        print(f"\nCalibrated on {splits[0]}, scored on {splits[1]}:\n")
        for row in [("", *names), ("---",) * (len(names) + 1)]:
            print(f"| {' | '.join(row)} |")
        for place, label in enumerate(("FP32", *rows)):
            print(f"| {' | '.join((label, *(column[place] for column in columns)))} |")
    return 0


def _column(name: str, subject: Subject, rows: Sequence[str]) -> list[str]:
    cells = [f"{subject.score(subject.fp32).metric:.4f}"]
    for row in rows:
        start = time.perf_counter()
        found = subject.of_peer(row) if row in PEERS else subject.quantized(ROWS[row])
        score = subject.score(found)
        seconds = time.perf_counter() - start
        print(f"{name}, {row}: {score}, {seconds:.0f} s", file=sys.stderr, flush=True)
        cells.append(str(score))
    return cells


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, help="the folder")
    parser.add_argument("--networks", nargs="+", help="all of the folder's if not given")
    parser.add_argument(
        "--rows",
        nargs="+",
        default=list(BRIEF),
        choices=[*ROWS, *PEERS],
        help="rows of the table; if not given, all tools and the better-known methods",
    )
    parser.add_argument("--all", action="store_true", help="every method, every tool")
    parser.add_argument(
        "--swap",
        action="store_true",
        help="a second table with the splits exchanged: calibrated on one, scored on the other",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
