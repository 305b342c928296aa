"""Make the tuning logs that come with the project, for this CPU, from the networks of the zoo.

Each network gets its minutes, for each number of threads; what was found for networks before helps
those after. At the end the logs are pruned to what builds need. Run it where nothing else runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from benchmarks import zoo
from benchmarks.script_parser import script_parser
from relay_int8.cli.tuning_progress import tuning_report
from relay_int8.compiler.target import resolve_target
from relay_int8.errors import Int8Error
from relay_int8.frontend.onnx import import_onnx
from relay_int8.machine.host import cpu_name
from relay_int8.tuning.log_folders import log_folder, logs
from relay_int8.tuning.network import network_tasks
from relay_int8.tuning.session import TuneOptions, tune_tasks
from relay_int8.tuning.upkeep import prune


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, tune, print; return the exit code."""
    options = _parser().parse_args(arguments)
    for threads in options.threads:
        for name in options.networks:
            _tune(name, threads, options)
    if options.prune:
        print(f"{prune(options.logs, database=False)} trials pruned", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = script_parser("scripts/tune_zoo", __doc__)
    add = parser.add_argument
    names = [*zoo.NETWORKS, *zoo.TRANSFORMERS]
    add("--networks", nargs="+", choices=names, default=names)
    add("--threads", nargs="+", type=int, default=[2, 1])
    add("--minutes", type=float, default=2, help="of each network and number of threads (2)")
    add("--trials", type=int, default=4000, help="at most, of each (4000)")
    add("--batch", type=int, default=1, help="of each network (1)")
    add("--image-size", type=int, help="the published one of each network by default")
    add("--logs", type=Path, default=Path("tuning_logs"), help="folder of the logs (tuning_logs)")
    add("--no-prune", dest="prune", action="store_false", help="keep every trial")
    return parser


def _tune(name: str, threads: int, options: argparse.Namespace) -> None:
    target = resolve_target("native", threads)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / f"{name}.onnx"
        onnx.save(zoo.build(name, image_size=options.image_size, batch=options.batch), model)
        tasks = network_tasks(import_onnx(model), target)
    log = f"{name}-{threads}-threads-batch-{options.batch}"
    own = log_folder(options.logs, target, cpu_name(), log)
    others = tuple(path for path in logs(options.logs) if path != own)
    print(f"{log}: {len(tasks)} kernels, {options.minutes:g} minutes", file=sys.stderr)
    with tuning_report() as report:
        tune_tasks(
            tasks,
            target,
            log,
            TuneOptions(
                trials=options.trials,
                seconds=options.minutes * 60,
                resume=own.exists(),
                warm_start=others,
            ),
            folder=options.logs,
            report=report,
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Int8Error as error:
        sys.exit(f"error: {error}")
