"""What int8 costs in accuracy: every network of a data folder, FP32 beside several configurations.

The folder holds ``evaluate.py``, which names the networks and yields their images (``NETWORKS``);
ranges come from its calibration split, scores from its evaluation split.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8 import QuantConfig, compile_model, float_network, import_onnx, load
from relay_int8.analysis.accuracy import snr_db

Array = np.ndarray[Any, Any]
Outputs = list[Array]
Run = Callable[[dict[str, Array]], dict[str, Array]]

FACE = 0.7  # score from which UltraFace's users take an image to hold a face
CONFIGURATIONS: Mapping[str, QuantConfig] = {
    "default": QuantConfig(),
    "percentile": QuantConfig(method="percentile"),
    "kl": QuantConfig(method="kl"),
    "uncorrected": QuantConfig(bias_correction=False),
    "symmetric": QuantConfig(preset="int8-symmetric"),
    "asymmetric": QuantConfig(preset="int8-asymmetric"),
}


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
    """One network of the folder with its images and what FP32 makes of them."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.model = Path(network.path())
        self._input = str(import_onnx(self.model, batch=1)["main"].params[0].name)
        run = float_network(self.model, batch=1)
        self.fp32 = self.outputs(run)

    def calibration(self) -> Iterator[Array]:
        """Yield the calibration images."""
        inputs: Iterator[Array] = self._network.inputs("calib", batch=1)
        return inputs

    def quantized(self, config: QuantConfig) -> Outputs:
        """Return the outputs of the network's artifact for the evaluation images."""
        with tempfile.TemporaryDirectory() as folder:
            artifact = Path(folder, "model.ri8")
            compile_model(self.model, self.calibration, artifact, config=config, batch=1, samples=0)
            module = load(artifact)
            return self.outputs(module.run)

    def score(self, outputs: Outputs) -> Score:
        """Return how good ``outputs`` are, as :meth:`quantized` gives them."""
        pairs = zip(self.fp32, outputs, strict=True)
        ratios = [snr_db(wanted, found) for wanted, found in pairs]
        return Score(
            metric=self._metric(outputs),
            snr_db=min(-np.inf if ratio is None else ratio for ratio in ratios),
        )

    def outputs(self, run: Run) -> Outputs:
        """Run every evaluation image; return each output with the images along its first axis."""
        images = (row[None] for batch in self._network.inputs("eval") for row in batch)
        found = [run({self._input: image}).values() for image in images]
        return [np.concatenate(arrays) for arrays in zip(*found, strict=True)]

    def _metric(self, outputs: Outputs) -> float:
        first, reference = outputs[0], self.fp32[0]
        if first.ndim == 3:  # boxes: (images, boxes, classes), class 0 is "nothing"
            same = (first[:, :, 1].max(axis=1) > FACE) == (reference[:, :, 1].max(axis=1) > FACE)
            return float(same.mean())
        chosen = first[:, self._network.first_class :].argmax(axis=1)
        return float((chosen == self._network.labels()).mean())


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
    rows = [
        _row(name, networks[name], options.configurations) for name in options.networks or networks
    ]
    for row in [("network", "FP32", *options.configurations), ("---",) * len(rows[0]), *rows]:
        print(f"| {' | '.join(row)} |")
    return 0


def _row(name: str, network: Any, configurations: Sequence[str]) -> tuple[str, ...]:
    subject = Subject(network)
    cells = [f"{subject.score(subject.fp32).metric:.4f}"]
    for configuration in configurations:
        start = time.perf_counter()
        score = subject.score(subject.quantized(CONFIGURATIONS[configuration]))
        seconds = time.perf_counter() - start
        print(f"{name}, {configuration}: {score}, {seconds:.0f} s", file=sys.stderr, flush=True)
        cells.append(str(score))
    return (name, *cells)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/bench_accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("data", type=Path, help="the folder")
    parser.add_argument("--networks", nargs="+", help="all of the folder's if not given")
    parser.add_argument(
        "--configurations",
        nargs="+",
        default=list(CONFIGURATIONS),
        choices=list(CONFIGURATIONS),
        help="columns of the table; all if not given",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
