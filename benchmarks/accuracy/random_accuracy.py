"""What int8 costs in accuracy on networks of random weights, beside other tools.

Each tool gets the same float32 network and calibration inputs, and has its defaults. Scores are of
other inputs: the signal-to-noise ratio of the least exact output against ONNX Runtime's float32
network, and the seconds of quantizing, from the file on. Networks are the zoo's at small sizes and,
with ``--folder``, those of files (``benchmarks/accuracy/torch_random.py`` writes some).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from benchmarks import apart, zoo
from benchmarks.accuracy.random_networks import (
    CALIBRATED,
    SIZES,
    RandomNetwork,
    open_folder,
    open_zoo,
)
from benchmarks.script_parser import script_parser
from benchmarks.subject import Inputs
from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic
from relay_int8.numerics.snr import least_snr_db

Run = Callable[[Inputs], Inputs]
Clock = Literal["cpu", "wall"]
HERE = "here"
AUTO = "auto"
TOOLS = (HERE, "ONNX Runtime MinMax", "NNCF")
TITLES = {HERE: "here", AUTO: "auto", "ONNX Runtime MinMax": "ORT", "NNCF": "NNCF"}
ZOO = {*zoo.NETWORKS, *zoo.TRANSFORMERS}
UNITS: Mapping[Clock, str] = {"cpu": "CPU s", "wall": "s"}
ALLOWED_DB = 0.5  # by which the default may stay behind the better of the other tools


@dataclass(frozen=True, kw_only=True)
class ToolScore:
    """What a tool makes of a network.

    Parameters
    ----------
    snr_db
        Of the least exact output, over all scored inputs.
    cpu_s, wall_s
        Of quantizing: of the processor, user and system, and by the clock on the wall.
    """

    snr_db: float
    cpu_s: float
    wall_s: float

    def __str__(self) -> str:
        return f"{self.snr_db:.1f} dB, {self.cpu_s:.1f} CPU s, {self.wall_s:.1f} s"


Scores = dict[str, dict[str, ToolScore]]
"""Network -> tool -> score."""


def here(model: Path, inputs: Iterable[Inputs], *, auto: bool = False) -> Callable[[], Run]:
    """Return what builds the network, quantized by this project's default or preset ``auto``."""
    import relay_int8

    config = relay_int8.QuantConfig(preset="auto") if auto else relay_int8.QuantConfig()
    quantized = relay_int8.quantize(relay_int8.load_model(model), list(inputs), config)

    def _built() -> Run:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "network.ri8"
            relay_int8.build(quantized).save(file)
            return relay_int8.load(file).run

    return _built


def of_peer(name: str, model: Path, inputs: Iterable[Inputs]) -> Callable[[], Run]:
    """Return what gives another tool's network."""
    from benchmarks.accuracy.peers import PEERS

    run = PEERS[name](model, inputs)
    return lambda: run


def measure(tool: str, network: RandomNetwork) -> ToolScore:
    """Return the score of one tool, in this process."""
    from benchmarks.onnxruntime_int8 import run_file

    cpu_start, wall_start = _cpu_s(), time.perf_counter()
    calibration = network.calibration
    quantized = (
        here(network.model, calibration, auto=tool == AUTO)
        if tool in (HERE, AUTO)
        else of_peer(tool, network.model, calibration)
    )
    cpu_s, wall_s = _cpu_s() - cpu_start, time.perf_counter() - wall_start
    run, reference = quantized(), run_file(network.model)
    pairs = ((_by_place(reference(x)), _by_place(run(x))) for x in network.scored)
    return ToolScore(snr_db=least_snr_db(pairs), cpu_s=cpu_s, wall_s=wall_s)


def _by_place(outputs: Inputs) -> Inputs:
    """Return outputs by their number; names are each tool's own."""
    return {str(place): values for place, values in enumerate(outputs.values())}


def _cpu_s() -> float:
    """Return the processor seconds of this process and those that it waited for."""
    return sum(os.times()[:4])


def table(
    scores: Mapping[str, Mapping[str, ToolScore]],
    tools: Sequence[str] = TOOLS,
    clock: Clock = "cpu",
) -> Iterator[str]:
    """Yield the lines of a Markdown table, means last; what is missing is "-"."""
    titles = [f"{TITLES[tool]} {unit}" for tool in tools for unit in ("dB", UNITS[clock])]
    yield f"| network | {' | '.join(titles)} | ahead by |"
    yield f"|---|{'---:|' * (len(titles) + 1)}"
    for name, row in scores.items():
        yield f"| {name} | {_cells(row, tools, clock)} | {_ahead(row)} |"
    complete = [row for row in scores.values() if row.keys() >= {*tools}]
    if complete:
        means = {tool: _mean([row[tool] for row in complete]) for tool in tools}
        yield f"| mean | {_cells(means, tools, clock)} | {_ahead(means)} |"


def _mean(scores: Sequence[ToolScore]) -> ToolScore:
    """Return the mean of decibels, which is a geometric one of power ratios, and of seconds."""
    return ToolScore(
        snr_db=sum(score.snr_db for score in scores) / len(scores),
        cpu_s=sum(score.cpu_s for score in scores) / len(scores),
        wall_s=sum(score.wall_s for score in scores) / len(scores),
    )


def _cells(row: Mapping[str, ToolScore], tools: Sequence[str], clock: Clock) -> str:
    return " | ".join(_cell(row.get(tool), clock) for tool in tools)


def _cell(score: ToolScore | None, clock: Clock) -> str:
    if score is None:
        return "- | -"
    seconds = score.cpu_s if clock == "cpu" else score.wall_s
    return f"{score.snr_db:.1f} | {seconds:.1f}"


def _ahead(row: Mapping[str, ToolScore]) -> str:
    """Return by how much this project leads the better of the others, bold where it is behind."""
    if not all(tool in row for tool in TOOLS):
        return "-"
    lead = row[HERE].snr_db - max(row[tool].snr_db for tool in TOOLS if tool != HERE)
    return f"{lead:+.1f}" if lead >= -ALLOWED_DB else f"**{lead:+.1f}**"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not known yet, print; return the exit code."""
    options = _parser().parse_args(arguments)
    scores = _read(options.scores)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = [network for each in options.folder for network in open_folder(each)]
            wanted = set(options.networks or (*SIZES, *(network.name for network in found)))
            missing = wanted.difference(ZOO, (network.name for network in found))
            if missing:
                raise ConfigError(f"no network {', '.join(sorted(missing))} in zoo or folders")
        except ConfigError as error:
            print(error, file=sys.stderr)
            return 2
        of_zoo = [name for name in (*SIZES, *sorted(ZOO.difference(SIZES))) if name in wanted]
        size, images = options.image_size, options.images
        drawn = (open_zoo(name, Path(folder), size, images) for name in of_zoo)
        for network in (*(each for each in found if each.name in wanted), *drawn):
            for tool in options.tools:
                if options.again or tool not in scores.get(network.name, {}):
                    _add(scores, tool, network)
                    _write(options.scores, scores)
    print("\n".join(table(scores, options.tools, options.clock)))
    return 0


def _add(scores: Scores, tool: str, network: RandomNetwork) -> None:
    """Measure one tool in a process of its own; say what came of it."""
    score, failure = apart.attempt(measure, tool, network)
    outcome = failure if score is None else score
    print(f"{network.name}, {tool}: {outcome}", file=sys.stderr, flush=True)
    if score is not None:
        scores.setdefault(network.name, {})[tool] = score


def _read(file: Path | None) -> Scores:
    if file is None or not file.exists():
        return {}
    found = json.loads(file.read_text(encoding="utf-8"))
    return {
        name: {tool: ToolScore(**fields) for tool, fields in row.items()}
        for name, row in found.items()
    }


def _write(file: Path | None, scores: Scores) -> None:
    if file is None:
        return
    fields = {
        name: {tool: asdict(score) for tool, score in row.items()} for name, row in scores.items()
    }
    write_atomic(file, f"{json.dumps(fields, indent=1)}\n".encode())


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_random", __doc__)
    parser.add_argument(
        "--folder", type=Path, action="append", default=[], help="of files; may be given again"
    )
    parser.add_argument(
        "--networks", nargs="+", help="ten of the zoo and all of the folders if not given"
    )
    parser.add_argument(
        "--tools",
        nargs="+",
        choices=TITLES,
        default=list(TOOLS),
        help=f"all but {AUTO}, this project's preset of that name, if not given",
    )
    parser.add_argument(
        "--image-size", type=int, help="of the zoo's networks; small ones if not given"
    )
    parser.add_argument(
        "--images",
        type=int,
        default=CALIBRATED,
        help=f"that calibrate the zoo's networks ({CALIBRATED})",
    )
    parser.add_argument("--clock", choices=UNITS, default="cpu", help="whose seconds to print")
    parser.add_argument("--again", action="store_true", help="measure what --scores has, too")
    parser.add_argument(
        "--scores",
        type=Path,
        help="a JSON file of scores: what it has is not measured again, what is measured is added",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
