"""``relay-int8 tune``: measure schedules of a network's kernels, and keep the fastest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from relay_int8.analysis.summary import show, table, terminal
from relay_int8.cli.model import MODEL, Inputs, Params, input_shapes
from relay_int8.cli.tuning_progress import tuning_report
from relay_int8.config import PRESETS

SEARCHES = ("xgb", "random", "grid")


def tune(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    list_only: Annotated[
        bool, typer.Option("--list", help="Show what would be tuned, and measure nothing.")
    ] = False,
    trials: Annotated[
        int, typer.Option(min=1, help="Schedules to measure, those of earlier runs included.")
    ] = 1000,
    target: Annotated[
        str, typer.Option(help="As for quantize; this computer must be able to run it.")
    ] = "native",
    preset: Annotated[
        str, typer.Option(help=f"Scheme of the integers: {', '.join(PRESETS)}.")
    ] = "int8",
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch, if the model leaves it open.")
    ] = None,
    inputs: Inputs = None,
    params: Params = None,
    unsigned_input: Annotated[
        bool,
        typer.Option("--unsigned-input", help="The network's input is never negative."),
    ] = False,
    search: Annotated[
        str, typer.Option(help=f"How to choose what to measure: {', '.join(SEARCHES)}.")
    ] = "xgb",
    seed: Annotated[int, typer.Option(min=1, help="Of the search.")] = 1,
    name: Annotated[
        str | None, typer.Option(help="Of the log's folder; the model's name if not given.")
    ] = None,
    logs: Annotated[Path, typer.Option(help="Folder of all logs.")] = Path("tuning_logs"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the log there is.")] = False,
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(help="Folder of logs that the cost model learns from first; repeatable."),
    ] = None,
    flush: Annotated[
        bool, typer.Option("--flush", help="Empty the caches before each run.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that compile; one a core if not given.")
    ] = None,
) -> None:
    """Find faster schedules for the kernels of a network on this computer.

    Every schedule's integers are checked before its time counts. Nothing that was measured is lost:
    stop with Ctrl-C, go on with --resume. Then quantize with --tuning-logs.
    """
    import relay_int8
    from relay_int8.compile import resolve_target
    from relay_int8.config import QuantConfig
    from relay_int8.tuning.bench import Timing
    from relay_int8.tuning.network import network_tasks
    from relay_int8.tuning.session import Options
    from relay_int8.tuning.session import tune as run

    where = resolve_target(target)
    mod = relay_int8.import_model(model, batch=batch, inputs=input_shapes(inputs), params=params)
    tasks = network_tasks(mod, where, QuantConfig(preset=preset), signed=not unsigned_input)
    console = terminal()
    if list_only:
        _print_tasks(tasks, where, console)
        return
    options = Options(
        trials=trials,
        search=search,
        seed=seed,
        resume=resume,
        warm_start=tuple(warm_start or ()),
        timing=Timing(flush=flush),
        workers=workers,
    )
    console.print(f"{model}: {len(tasks)} kernels, {trials} trials, search {search}, seed {seed}")
    try:
        with tuning_report(tasks) as report:
            folder = run(tasks, where, name or model.stem, options, folder=logs, report=report)
    except KeyboardInterrupt:
        console.print("stopped; what was measured is kept, --resume goes on with it")
        raise typer.Exit(130) from None
    console.print(f"{folder}", soft_wrap=True)


def _print_tasks(tasks: Any, target: Any, console: Console) -> None:
    from relay_int8.tuning.network import seconds_of
    from schedules.space import size

    numbers = ("calls", "schedules", "us", "share")
    rows = table(console, "kernel", "template", *numbers, right=numbers)
    seconds = seconds_of(tasks, target)
    total = sum(task.occurrences * seconds[task.key] for task in tasks)
    for task in sorted(tasks, key=lambda task: -task.occurrences * seconds[task.key]):
        count = size(task.kernel(target))
        time_s = seconds[task.key]
        rows.add_row(
            task.title,
            task.template,
            str(task.occurrences),
            "many" if count is None else str(count),
            f"{time_s * 1e6:.1f}",
            f"{task.occurrences * time_s / total:.1%}" if total else "",
        )
    show(console, f"{len(tasks)} kernels, {total * 1e3:.3f} ms with default schedules", rows)
