"""``relay-int8 tuning-logs``: look at tuning logs, put them together, make them small."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8 import finite_json
from relay_int8.cli.options import AsJson
from relay_int8.files import require_folder, require_outputs

if TYPE_CHECKING:
    from relay_int8 import TuningLog

tuning_logs = typer.Typer(
    no_args_is_help=True, help="Look at tuning logs, put them together, make them small."
)
Folder = Annotated[Path, typer.Argument(help="A log, or a folder of logs.")]


@tuning_logs.command()
def show(folder: Folder, as_json: AsJson = False) -> None:
    """Show each log's kernels: layers, trials, time by default and tuned, the winning choices."""
    import relay_int8
    from relay_int8.cli.terminal import show as show_table
    from relay_int8.cli.terminal import table, terminal
    from relay_int8.messages import few

    logs = relay_int8.read_tuning_logs(folder)
    if as_json:
        typer.echo(finite_json.dumps([_values(log) for log in logs]), nl=False)
        return
    console = terminal()
    for log in logs:
        numbers = ("calls", "trials", "default us", "tuned us")
        texts = ("kernel", "template", "layers")
        rows = table(console, *texts, *numbers, "choices", right=numbers)
        for kernel in log.kernels:
            times = (f"{time_us:.1f}" for time_us in (kernel.default_us, kernel.tuned_us))
            choices = "default" if kernel.choices is None else str(list(kernel.choices))
            names = (kernel.kernel, kernel.template, few(kernel.layers))
            rows.add_row(*names, str(kernel.calls), str(kernel.trials), *times, choices)
        title = (
            f"{log.path}: {log.network} on {log.device}, tvm {log.tvm}, "
            f"{log.totals['untuned_us']:.0f} -> {log.totals['tuned_us']:.0f} us"
        )
        show_table(console, title, rows)
        if log.refusal:
            console.print(f"not used: {log.refusal}", soft_wrap=True)


def _values(log: TuningLog) -> dict[str, Any]:
    """Return what ``show`` prints of a log, as plain values."""
    return {
        "log": str(log.path),
        "network": log.network,
        "device": log.device,
        "tvm": log.tvm,
        **log.totals,
        "refused": log.refusal,
        "kernels": [asdict(kernel) for kernel in log.kernels],
    }


@tuning_logs.command()
def merge(
    sources: Annotated[list[Path], typer.Argument(help="Logs of one device and target.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the new log.")],
) -> None:
    """Write one log with the trials of several."""
    import relay_int8

    require_folder(output)
    log = relay_int8.merge_tuning_logs(sources, output)
    typer.echo(f"{output}: {log.totals['trials']} trials of {len(log.kernels)} kernels")


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
    """Keep only what builds need: the trials of each kernel's default and winner.

    Kernels whose templates have changed since are dropped whole: builds pass them over.
    """
    import relay_int8

    dropped = relay_int8.prune_tuning_logs(folder, database=database)
    typer.echo(f"{folder}: {dropped} trials dropped")


@tuning_logs.command()
def page(
    log: Annotated[Path, typer.Argument(help="A log: the folder of one network.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
) -> None:
    """Write an HTML page: progress, cost model, winners, shares of the time and of the peak."""
    import relay_int8

    require_outputs(output)
    relay_int8.write_tuning_page(log, output)
    typer.echo(f"{output}")
