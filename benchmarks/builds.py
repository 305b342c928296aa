"""One quantized network, built in several ways, whose builds take turns.

What tuning records are worth, and what `--compact` costs. Integers are the same, and are compared.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import apart, zoo
from benchmarks.compare_systems import cores_for, float_model
from benchmarks.relay_int8_system import quantized, write_artifacts
from benchmarks.rounds import Rules, take_rounds
from benchmarks.script_parser import script_parser
from benchmarks.subject import Subject, subject
from benchmarks.systems import SYSTEMS
from benchmarks.turns import racers
from relay_int8 import BuildOptions
from relay_int8.cli.terminal import show, table, terminal

LATENCY = SYSTEMS["relay-int8-latency"]
USUAL = "usual"
BUILDS = {
    USUAL: BuildOptions(),
    "untuned": BuildOptions(records=False),
    "compact": BuildOptions(compact=True),
}
"""What others are compared with is "usual"."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Seconds of a run in each round, and megabytes of the artifact, by build."""

    network: str
    threads: int
    times_s: Mapping[str, np.ndarray]
    megabytes: Mapping[str, float]

    def row(self, build: str) -> tuple[str, ...]:
        """Return network, threads, build, milliseconds, times as long as usual, megabytes."""
        times = self.times_s[build]
        ratio = np.median(times / self.times_s[USUAL])
        return (
            self.network,
            str(self.threads),
            build,
            f"{np.median(times) * 1e3:.3f}",
            f"{ratio:.3f}",
            f"{self.megabytes[build]:.1f}",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, measure, print; return the exit code."""
    options = _parser().parse_args(arguments)
    console = terminal()
    rows = table(
        console, "network", "threads", "build", "ms", "/ usual", "MB", right=("ms", "/ usual", "MB")
    )
    with tempfile.TemporaryDirectory() as folder:
        rules = Rules(systems=(), rounds=options.rounds, turn_s=options.turn, folder=Path(folder))
        for name in options.networks:
            what = subject(name, None, calibration_images=8)
            for compared in compare_builds(
                what, options.batch, options.threads, [USUAL, *options.builds], rules
            ):
                for build in compared.times_s:
                    rows.add_row(*compared.row(build))
                    print(*compared.row(build), file=sys.stderr, flush=True)
    show(console, f"batch {options.batch}", rows)
    return 0


def compare_builds(
    what: Subject, batch: int, threads: Sequence[int], builds: Sequence[str], rules: Rules
) -> Iterator[Compared]:
    """Yield a comparison for each number of threads.

    Raises
    ------
    RuntimeError
        Two builds compute different outputs, or one did not last.
    """
    model = float_model(what, batch, rules, lambda _step: None)
    files = {build: rules.folder / f"{what.name}-b{batch}-{build}.ri8" for build in builds}
    apart.call(_write, what, model, files, batch)
    inputs = what.inputs(batch)
    for count in threads:
        starts = {
            build: (LATENCY, file, inputs, count, cores_for(count)) for build, file in files.items()
        }
        with racers(starts) as (running, failures):
            turns, ended = take_rounds(running, rules)
            outputs = {build: racer.logits for build, racer in running.items()}
        if failures or ended:
            raise RuntimeError(f"{what.network}: {failures | ended}")
        if different := [b for b in builds if not np.array_equal(outputs[b], outputs[USUAL])]:
            raise RuntimeError(f"{what.network}: other outputs than usual by {different}")
        yield Compared(
            network=what.network,
            threads=count,
            times_s={b: np.array([turn.wall_s for turn in turns[b]]) for b in builds},
            megabytes={b: file.stat().st_size / 1e6 for b, file in files.items()},
        )


def _write(what: Subject, model: Path, files: Mapping[str, Path], batch: int) -> None:
    network = quantized(what, model, batch)
    for build, file in files.items():
        write_artifacts(network, file, BUILDS[build])


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/bench_builds", __doc__)
    add = parser.add_argument
    add("--networks", nargs="+", required=True, choices=[*zoo.NETWORKS, *zoo.TRANSFORMERS])
    add("--builds", nargs="+", default=["untuned"], choices=[b for b in BUILDS if b != USUAL])
    add("--batch", type=int, default=1)
    add("--threads", nargs="+", type=int, default=[2, 1], choices=range(1, _cores() + 1))
    add("--rounds", type=int, default=15, help="turns of each build (15)")
    add("--turn", type=float, default=0.25, help="seconds of a turn, at least (0.25)")
    return parser


def _cores() -> int:
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    sys.exit(main())
