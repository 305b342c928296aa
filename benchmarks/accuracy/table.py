"""What int8 costs in accuracy: every method and tool on every network, beside other tools.

The folder holds ``evaluate.py``, which names the networks and yields their images (``NETWORKS``);
ranges come from its calibration split, scores from its evaluation split, and with ``--swap`` the
other way round too. A cell is the top-1 accuracy (of a detector, how often it agrees with FP32 that
there is something), the signal-to-noise ratio of the least exact output against FP32, and the
seconds that quantizing took. "auto by metric" goes by that accuracy on calibration images, "auto"
by decibels.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.accuracy.scores_file import ScoresFile
from benchmarks.accuracy.trained_network import Score, TrainedNetwork, open_networks
from benchmarks.script_parser import script_parser
from relay_int8 import QuantConfig
from relay_int8.calibration import METHODS
from relay_int8.quantization.config import Tools

FP32 = "FP32"
BY_METRIC = "auto by metric"
PLAIN = QuantConfig(preset="int8", method="max")
ROWS: Mapping[str, QuantConfig] = {
    "default": QuantConfig(),
    **{f"method {name}": replace(PLAIN, method=name) for name in METHODS},
    "uncorrected": replace(PLAIN, bias_correction=False),
    "symmetric": replace(PLAIN, preset="int8-symmetric"),
    "asymmetric": replace(PLAIN, preset="int8-asymmetric"),
    "unequalized": QuantConfig(tools=Tools(equalization="none")),
    "cross-layer": replace(PLAIN, tools=Tools(equalization="cross-layer")),
    "smooth": replace(PLAIN, tools=Tools(equalization="smooth")),
    "output-error": replace(PLAIN, tools=Tools(thresholds="output-error")),
    "empirical": replace(PLAIN, tools=Tools(correction="empirical")),
    "adaround": replace(PLAIN, tools=Tools(correction="empirical", rounding="adaround")),
    "descent": replace(PLAIN, tools=Tools(correction="empirical", rounding="descent")),
    "accurate": QuantConfig(preset="int8-accurate"),
    "auto": QuantConfig(preset="auto"),
    BY_METRIC: QuantConfig(preset="auto"),
}
"""What this project can do; methods and tools one by one, beside ``PLAIN``."""
PEERS = ("ONNX Runtime MinMax", "ONNX Runtime Entropy", "NNCF")
"""Other tools, with their defaults (``benchmarks.accuracy.peers``)."""
DIRECTIONS = (("calib", "eval"), ("eval", "calib"))
"""Whose images calibrate, and whose are scored."""
BRIEF = (
    "default",
    "method max",
    "method mse",
    "method percentile",
    "method kl-tensorrt",
    *(name for name in ROWS if name != "default" and not name.startswith("method ")),
    *PEERS,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure what is not known yet, print; return the exit code."""
    options = _parser().parse_args(arguments)
    networks = open_networks(options.data)
    unknown = set(options.networks or ()).difference(networks)
    if unknown:
        print(f"{', '.join(sorted(unknown))}: there are {', '.join(networks)}", file=sys.stderr)
        return 2
    names = options.networks or list(networks)
    rows = (FP32, *ROWS, *PEERS) if options.all else (FP32, *options.rows)
    directions = DIRECTIONS[: 2 if options.swap else 1]
    cells = ScoresFile(options.cells)
    if not options.known:
        for splits in directions:
            for name in names:
                measure(cells, name, TrainedNetwork(networks[name], splits), splits[1], rows)
    scored = [splits[1] for splits in directions]
    print("\n".join(table(cells.find, names, rows, scored)))
    return 0


def measure(
    cells: ScoresFile, name: str, subject: TrainedNetwork, scored: str, rows: Sequence[str]
) -> None:
    """Measure the rows of a network that ``cells`` does not know, and keep them there."""
    for row in rows:
        if cells.find(name, scored, row) is not None:
            continue
        score = _score(subject, row)
        print(f"{name}, {scored}, {row}: {score}", file=sys.stderr, flush=True)
        cells.keep(name, scored, row, score)


def table(
    find: Callable[[str, str, str], Score | None],
    names: Sequence[str],
    rows: Sequence[str],
    scored: Sequence[str],
) -> Iterator[str]:
    """Yield the lines of a Markdown table; a cell holds all directions, "-" what is not known."""
    yield f"| scored on {', '.join(scored)} | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"
    for row in rows:
        cells = [_cell([find(name, split, row) for split in scored], row) for name in names]
        yield f"| {row} | {' | '.join(cells)} |"


def _cell(scores: Sequence[Score | None], row: str) -> str:
    metrics = ", ".join("-" if score is None else f"{score.metric:.3f}" for score in scores)
    if row == FP32 or not any(scores):
        return metrics
    ratios = ", ".join("-" if score is None else f"{score.snr_db:.1f}" for score in scores)
    seconds = ", ".join("-" if score is None else f"{score.seconds:.0f}" for score in scores)
    return f"{metrics}; {ratios} dB; {seconds} s"


def _score(subject: TrainedNetwork, row: str) -> Score:
    if row == FP32:
        return subject.score(subject.fp32)
    if row in PEERS:
        network = subject.of_peer(row)
    else:
        network = subject.quantized(ROWS[row], by_metric=row == BY_METRIC)
    return subject.score(subject.outputs(network.run), network.seconds)


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_accuracy", __doc__)
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
        help="both directions: the splits exchanged too, calibrated on one, scored on the other",
    )
    parser.add_argument(
        "--cells",
        type=Path,
        help="a JSON file of scores: what it has is not measured again, what is measured goes "
        "there at once, so that a table can be made in pieces; of one version of the project",
    )
    parser.add_argument("--known", action="store_true", help="measure nothing, print --cells")
    return parser


if __name__ == "__main__":
    sys.exit(main())
