"""``relay-int8 tune``: measure schedules of a network's kernels, and keep the fastest."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8 import Address, Endpoint
from relay_int8.cli.exits import telling_what_is_written
from relay_int8.cli.model import Cut, Inputs, Model, Params, import_options
from relay_int8.cli.option_names import with_options
from relay_int8.cli.options import (
    MAX_THREADS,
    AsJson,
    Batch,
    Preset,
    RequantizeName,
    RoundingName,
    chosen_requantize,
)
from relay_int8.cli.serve import KEY_VARIABLE
from relay_int8.cli.words import PRESET, SEARCHES, TARGETS, among
from relay_int8.files import require_folder, require_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from relay_int8 import KernelToTune, NetworkKernels

ListOnly = Annotated[
    bool, typer.Option("--list", help="Show what would be tuned, and measure nothing.")
]
Trials = Annotated[
    int, typer.Option(min=1, help="Schedules to measure, those of earlier runs included.")
]
Minutes = Annotated[
    float | None, typer.Option(min=0, help="Stop after this many minutes, even if trials are left.")
]
Target = Annotated[
    str,
    typer.Option(
        help="As for quantize; the device that measures has to be able to run it.",
        autocompletion=among(TARGETS),
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_THREADS,
        help="Threads that the network will run on; by default the target's.",
    ),
]
UnsignedInput = Annotated[
    bool, typer.Option("--unsigned-input", help="The network's input is never negative.")
]
SearchName = Annotated[
    str,
    typer.Option(
        help=f"How to choose what to measure: {', '.join(SEARCHES)}.",
        autocompletion=among(SEARCHES),
    ),
]
Seed = Annotated[int, typer.Option(min=1, help="Seed of the search.")]
LogName = Annotated[
    str | None, typer.Option(help="Name of the log's folder; by default the model's name.")
]
Logs = Annotated[Path, typer.Option(help="Folder of all logs.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue the log of an earlier run.")]
WarmStart = Annotated[
    list[Path] | None,
    typer.Option(help="Folder of logs that the cost model learns from first; repeatable."),
]
PageFile = Annotated[
    Path | None, typer.Option(help="HTML page to write at the end; see tuning-logs page.")
]
Flush = Annotated[bool, typer.Option("--flush", help="Empty the caches before each run.")]
MinRepeatMs = Annotated[
    int, typer.Option(min=1, help="Milliseconds of runs over which one time is averaged.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that compile; by default one for each core.")
]
Tracker = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Tracker that lends devices.")
]
Rpc = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="A single device, where relay-int8 serve listens."),
]
Key = Annotated[str, typer.Option(envvar=KEY_VARIABLE, help="The key that the devices serve with.")]
Devices = Annotated[
    int, typer.Option(min=1, help="Number of the tracker's devices to measure on at the same time.")
]
Patience = Annotated[
    float, typer.Option(min=1, help="Seconds to wait for a lost device before giving up.")
]


def tune(
    model: Model,
    list_only: ListOnly = False,
    trials: Trials = 1000,
    minutes: Minutes = None,
    target: Target = "native",
    threads: Threads = None,
    preset: Preset = PRESET,
    requantize: RequantizeName = "float",
    rounding: RoundingName = None,
    batch: Batch = None,
    inputs: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    unsigned_input: UnsignedInput = False,
    search: SearchName = "xgb",
    seed: Seed = 1,
    name: LogName = None,
    logs: Logs = Path("tuning_logs"),
    resume: Resume = False,
    warm_start: WarmStart = None,
    page: PageFile = None,
    flush: Flush = False,
    min_repeat_ms: MinRepeatMs = 3,
    workers: Workers = None,
    tracker: Tracker = None,
    rpc: Rpc = None,
    key: Key = "",
    devices: Devices = 1,
    patience: Patience = 600,
    as_json: AsJson = False,
) -> None:
    """Find faster schedules for the kernels of a network, on this computer or on others.

    Every schedule's integers are checked before its time counts. Nothing that was measured is lost:
    stop with Ctrl-C, go on with --resume. Then quantize with --tuning-logs.
    """
    if as_json and not list_only:
        raise typer.BadParameter("--json is of --list; the log is JSON by itself")
    if search not in SEARCHES:
        raise typer.BadParameter(f"--search {search}: {', '.join(SEARCHES)} are known")
    require_outputs(page, read=(model, params))
    require_folder(logs)
    rack = _rack(tracker, rpc, key)
    import relay_int8
    from relay_int8.cli.terminal import terminal
    from relay_int8.cli.tuning_progress import tuning_report

    kernels = relay_int8.find_kernels(
        relay_int8.load_model(model, import_options(batch, inputs, params, cut)),
        target=target,
        threads=threads,
        config=relay_int8.QuantConfig(
            preset=preset, requantize=chosen_requantize(requantize, rounding)
        ),
        unsigned_input=unsigned_input,
    )
    console = terminal()
    if list_only:
        _print_kernels(kernels, console, as_json=as_json)
        return
    options = relay_int8.TuneOptions(
        trials=trials,
        seconds=float("inf") if minutes is None else minutes * 60,
        search=search,
        seed=seed,
        resume=resume,
        warm_start=tuple(warm_start or ()),
        timing=relay_int8.Timing(flush=flush, repeat_ms=min_repeat_ms),
        workers=workers,
        rack=rack,
        devices=devices,
        patience_s=patience,
    )
    console.print(f"{model}: {len(kernels)} kernels, {trials} trials, search {search}, seed {seed}")
    with telling_what_is_written(page, partial=logs):
        with tuning_report() as progress:
            folder = relay_int8.tune(kernels, options, name=name, logs=logs, progress=progress)
        console.print(f"{folder}", soft_wrap=True)
        if page is not None:
            relay_int8.write_tuning_page(folder, page)
    same: dict[str, object] = {
        "--target": target,
        "--threads": threads,
        "--preset": preset,
        "--batch": batch,
        "--params": params,
    }
    words = [text for key, value in same.items() if value is not None for text in (key, str(value))]
    words += [text for shape in inputs or () for text in ("--input", shape)]
    words += [text for name in cut or () for text in ("--cut", name)]
    words += ["--tuning-logs", str(folder), "--data", "IMAGES", "-o", f"{model.stem}.ri8"]
    console.print(f"next: relay-int8 quantize {shlex.join([str(model), *words])}", soft_wrap=True)


def _rack(tracker: str | None, rpc: str | None, key: str) -> Endpoint | None:
    """Return where the devices are, None for this computer."""
    if tracker and rpc:
        raise typer.BadParameter("give either --tracker or --rpc")
    if tracker and not key:
        raise typer.BadParameter("a --tracker lends devices by their --key")
    if tracker is None and rpc is None:
        return None
    address = Address.parse(tracker or rpc or "")
    return Endpoint(address=address, key=key, tracker=tracker is not None)


def _print_kernels(kernels: NetworkKernels, console: Console, *, as_json: bool) -> None:
    from relay_int8 import finite_json
    from relay_int8.cli.terminal import show, table
    from relay_int8.messages import few

    reason = kernels.obstacle and with_options(kernels.obstacle)
    listed = kernels.listed(timed=reason is None)
    if as_json:
        values = [_values(kernel) for kernel in listed]
        typer.echo(finite_json.dumps({"kernels": values, "no_times": reason}), nl=False)
        return
    total_us = sum(kernel.calls * (kernel.default_us or 0.0) for kernel in listed)
    numbers = ("calls", "schedules", "us", "share")
    rows = table(console, "kernel", "template", *numbers, "layers", right=numbers)
    for kernel in listed:
        time_us = kernel.default_us
        rows.add_row(
            kernel.kernel,
            kernel.template,
            str(kernel.calls),
            "many" if kernel.schedules is None else str(kernel.schedules),
            "-" if time_us is None else f"{time_us:.1f}",
            f"{kernel.calls * time_us / total_us:.1%}" if time_us and total_us else "-",
            few(kernel.layers),
        )
    times = "no times" if reason else f"{total_us / 1e3:.3f} ms with default schedules"
    show(console, f"{len(kernels)} kernels, {times}", rows)
    if reason:
        console.print(f"no times: {reason}", soft_wrap=True)


def _values(kernel: KernelToTune) -> dict[str, Any]:
    values = asdict(kernel)
    return {**values, "us": values.pop("default_us")}
