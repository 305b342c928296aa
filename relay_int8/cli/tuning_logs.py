"""``relay-int8 tuning-logs``: look at tuning logs, put them together, make them small."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from relay_int8 import finite_json
from relay_int8.cli.options import AsJson
from relay_int8.errors import ConfigError, RecordError
from relay_int8.files import require_outputs

tuning_logs = typer.Typer(
    no_args_is_help=True, help="Look at tuning logs, put them together, make them small."
)
Folder = Annotated[Path, typer.Argument(help="A log, or a folder of logs.")]


@tuning_logs.command()
def show(folder: Folder, as_json: AsJson = False) -> None:
    """Show each log's kernels: trials, time by default and tuned, the winning choices."""
    from relay_int8.report.terminal import show as show_table
    from relay_int8.report.terminal import table, terminal
    from relay_int8.tuning.session import results
    from relay_int8.tuning.trial_log import read_manifest, read_trials
    from relay_int8.tuning.winner import by_task, winner
    from schedules.task import Task

    found = _logs(folder)
    if as_json:
        typer.echo(finite_json.dumps([_values(path) for path in found]), nl=False)
        return
    console = terminal()
    for path in found:
        manifest, trials = read_manifest(path), read_trials(path)
        numbers = ("calls", "trials", "default us", "tuned us")
        rows = table(console, "kernel", *numbers, "choices", right=numbers)
        for key, task_trials in by_task(trials).items():
            best = winner(task_trials)
            count = manifest.occurrences.get(key, 1)
            times = (f"{time * 1e6:.1f}" for time in (best.default_s, best.seconds))
            choices = "default" if best.choices is None else str(list(best.choices))
            title = Task.from_key(key).title
            rows.add_row(title, str(count), str(len(task_trials)), *times, choices)
        totals = results(manifest, trials)
        title = (
            f"{path}: {manifest.network} on {manifest.device}, tvm {manifest.tvm}, "
            f"{totals['untuned_us']:.0f} -> {totals['tuned_us']:.0f} us"
        )
        show_table(console, title, rows)
        reason = manifest.refusal()
        if reason:
            console.print(f"not used: {reason}", soft_wrap=True)


def _values(log: Path) -> dict[str, Any]:
    """Return what ``show`` prints of a log, as plain values."""
    from relay_int8.tuning.session import results
    from relay_int8.tuning.trial_log import read_manifest, read_trials
    from relay_int8.tuning.winner import by_task, winner
    from schedules.task import Task

    manifest, trials = read_manifest(log), read_trials(log)
    kernels = []
    for key, task_trials in by_task(trials).items():
        best = winner(task_trials)
        kernels.append(
            {
                "kernel": Task.from_key(key).title,
                "calls": manifest.occurrences.get(key, 1),
                "trials": len(task_trials),
                "default_us": best.default_s * 1e6,
                "tuned_us": best.seconds * 1e6,
                "choices": best.choices,
            }
        )
    return {
        "log": str(log),
        "network": manifest.network,
        "device": manifest.device,
        "tvm": manifest.tvm,
        **results(manifest, trials),
        "refused": manifest.refusal(),
        "kernels": kernels,
    }


@tuning_logs.command()
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Logs of one device and target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new log.")],
) -> None:
    """Write one log with the trials of several."""
    from relay_int8.tuning.upkeep import merge as run

    if output.is_file():
        raise ConfigError(f"{output}: a file found, a new folder expected; name another")
    manifest = run(sources, output)
    typer.echo(f"{output}: {manifest.results['trials']} trials of {len(manifest.kernels)} kernels")


@tuning_logs.command()
def prune(
    folder: Folder,
    database: Annotated[
        bool,
        typer.Option(
            "--database/--no-database",
            help="Keep MetaSchedule's files, 100 kB for each kernel; --resume makes them again.",
        ),
    ] = True,
) -> None:
    """Keep only what builds need: the trials of each kernel's default and winner."""
    from relay_int8.tuning.upkeep import prune as run

    _logs(folder)
    typer.echo(f"{folder}: {run(folder, database=database)} trials dropped")


@tuning_logs.command()
def page(
    log: Annotated[Path, typer.Argument(help="A log: the folder of one network.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
) -> None:
    """Write an HTML page: progress, cost model, winners, shares of the time and of the peak."""
    from relay_int8.report.tuning_page import write_tuning_page

    require_outputs(output)
    write_tuning_page(log, output)
    typer.echo(f"{output}")


def _logs(folder: Path) -> list[Path]:
    """Return the logs in a folder, of which there is at least one."""
    from relay_int8.tuning.records import logs

    found = list(logs(folder))
    if not found:
        raise RecordError(f"{folder} holds no tuning log; make one with relay-int8 tune")
    return found
