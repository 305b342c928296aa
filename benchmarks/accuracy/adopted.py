"""Networks that ONNX Runtime has quantized, run here as they are, and by ONNX Runtime itself.

The folder is that of ``scripts/bench_accuracy``. ``quantize_static`` writes a QDQ file with the
calibration split; here it keeps its scales and becomes integers. Scores are those of the evaluation
split; "SNR" compares the outputs of both. Then both take turns, each in a process of its own.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnxruntime import quantization

import relay_int8
from benchmarks.accuracy.trained_network import Array, TrainedNetwork, compiled, open_networks
from benchmarks.compare_systems import cores_for
from benchmarks.onnxruntime_int8 import run_file
from benchmarks.relay_int8_system import write_artifacts
from benchmarks.rounds import Rules, take_rounds
from benchmarks.script_parser import script_parser
from benchmarks.static_quantization import ImageReader, write_qdq
from benchmarks.subject import Inputs
from benchmarks.systems import SYSTEMS
from benchmarks.turns import racers
from relay_int8.numerics.snr import snr_db

HERE, THERE = "relay-int8-latency", "onnxruntime-latency"
DEFAULT = ("squeezenet1.1", "mobilenetv1_0.25")


@dataclass(frozen=True, kw_only=True)
class Row:
    """A network, by ONNX Runtime and here.

    ``ms`` are medians of one image's time; ``ratio`` is the median of the ratios within a round.
    """

    name: str
    threads: int
    theirs: float
    ours: float
    snr_db: float | None
    their_ms: float
    our_ms: float
    ratio: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    parser = script_parser("scripts/bench_adopted", __doc__)
    parser.add_argument("data", type=Path, help="the folder")
    parser.add_argument("--networks", nargs="+", default=list(DEFAULT))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9, help="turns of each (9)")
    options = parser.parse_args(arguments)
    networks = open_networks(options.data)
    print("| network | threads | ORT | here | SNR | ORT ms | here ms | ORT / here |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in options.networks:
        with tempfile.TemporaryDirectory() as folder:
            rules = Rules(
                systems=(HERE, THERE), rounds=options.rounds, turn_s=0.25, folder=Path(folder)
            )
            for row in measured(name, TrainedNetwork(networks[name]), options.threads, rules):
                print(_line(row), flush=True)
    return 0


def measured(
    name: str, subject: TrainedNetwork, threads: Sequence[int], rules: Rules
) -> Iterator[Row]:
    """Yield a row for every number of threads."""
    file, artifact = rules.folder / "qdq.onnx", rules.folder / "network.ri8"
    reader = ImageReader(subject.input, subject.calibration())
    write_qdq(subject.model, file, reader, quantization.QuantType.QUInt8)
    model = relay_int8.load_model(file, relay_int8.ImportOptions(batch=1))
    network = relay_int8.quantize(model, None, relay_int8.QuantConfig(require_int8=True))
    theirs = subject.outputs(run_file(file))
    ours = subject.outputs(compiled(network.network, subject.input))
    write_artifacts(network, artifact)
    inputs = {subject.input: next(subject.calibration())}
    for count in threads:
        turns = _turns({HERE: artifact, THERE: file}, inputs, count, rules)
        yield Row(
            name=name,
            threads=count,
            theirs=subject.score(theirs).metric,
            ours=subject.score(ours).metric,
            snr_db=snr_db(theirs[0], ours[0]),
            their_ms=1e3 * float(np.median(turns[THERE])),
            our_ms=1e3 * float(np.median(turns[HERE])),
            ratio=float(np.median(turns[THERE] / turns[HERE])),
        )


def _turns(files: dict[str, Path], inputs: Inputs, threads: int, rules: Rules) -> dict[str, Array]:
    """Return the seconds of one image, (rounds,) each."""
    cores = cores_for(threads)
    starts = {key: (SYSTEMS[key], file, inputs, threads, cores) for key, file in files.items()}
    with racers(starts) as (running, failures):
        turns, ended = take_rounds(running, rules)
    if failures | ended:
        raise RuntimeError(f"{failures | ended}")
    return {key: np.array([turn.wall_s for turn in taken]) for key, taken in turns.items()}


def _line(row: Row) -> str:
    ratio = "-" if row.snr_db is None else f"{row.snr_db:.1f} dB"
    return (
        f"| {row.name} | {row.threads} | {row.theirs:.3f} | {row.ours:.3f} | {ratio} | "
        f"{row.their_ms:.2f} | {row.our_ms:.2f} | {row.ratio:.2f} |"
    )


if __name__ == "__main__":
    sys.exit(main())
