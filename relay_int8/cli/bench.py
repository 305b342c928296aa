"""``relay-int8 bench``: how long one run takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8.cli.model import Artifact
from relay_int8.cli.options import MAX_THREADS, AsJson
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np


def bench(
    artifact: Artifact,
    repeats: Annotated[int, typer.Option(min=1, help="Runs that are measured.")] = 50,
    warmup: Annotated[int, typer.Option(min=0, help="Runs before those that are measured.")] = 5,
    threads: Annotated[
        list[int] | None,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Threads to run on; repeat the option to compare. By default the runtime chooses.",
        ),
    ] = None,
    streams: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MAX_THREADS,
            help="Also measure this many runs at a time, each on one thread.",
        ),
    ] = None,
    batch: Annotated[
        int,
        typer.Option(min=1, help="Images in each run, if the artifact was made with --max-batch."),
    ] = 1,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Take the time of a run apart instead: products, waiting, memory, other, and what "
            "is between kernels. For artifacts that run on the CPU.",
        ),
    ] = False,
    top: Annotated[
        int, typer.Option(min=1, help="Kernels that a profile lists, the slowest first.")
    ] = 20,
    as_json: AsJson = False,
) -> None:
    """Time an artifact on random inputs: median, spread, images a second.

    With several streams, milliseconds are those from one result to the next.
    """
    import relay_int8
    from relay_int8 import finite_json

    _check_batch(artifact, batch)
    if profile:
        _profile(artifact, threads, streams, batch, repeats, warmup, top, as_json)
        return
    measured: list[dict[str, float]] = []
    for count in _counts(threads):
        module = relay_int8.load(artifact, threads=count)
        inputs = relay_int8.random_inputs(module.manifest.inputs, batch)
        times_ms = module.time(inputs, repeats, warmup=warmup)
        measured.append({"threads": module.threads, "streams": 1, **_row(inputs, times_ms)})
    if streams:
        inputs = relay_int8.random_inputs(relay_int8.read_manifest(artifact).inputs, batch)
        with relay_int8.Streams(artifact, streams) as running:
            times_ms = running.time(inputs, repeats, warmup=warmup)
        measured.append({"threads": 1, "streams": streams, **_row(inputs, times_ms)})
    if as_json:
        typer.echo(finite_json.dumps(measured), nl=False)
    else:
        _print(measured, str(artifact))


def _counts(threads: Sequence[int] | None) -> list[int | None]:
    """Return the numbers of threads, the most first: the runtime's pool never grows."""
    return [*sorted(threads, reverse=True)] if threads else [None]


def _profile(
    artifact: Path,
    threads: Sequence[int] | None,
    streams: int | None,
    batch: int,
    repeats: int,
    warmup: int,
    top: int,
    as_json: bool,
) -> None:
    """Print a profile for each number of threads."""
    import relay_int8
    from relay_int8 import finite_json
    from relay_int8.cli.profile import print_profile

    if streams:
        raise ConfigError(
            "--profile is of one run at a time, --streams of several; choose one: a stream runs as "
            "--threads 1 does"
        )
    profiles = [
        relay_int8.profile(artifact, threads=count, batch=batch, repeats=repeats, warmup=warmup)
        for count in _counts(threads)
    ]
    if as_json:
        typer.echo(finite_json.dumps([profile.to_dict() for profile in profiles]), nl=False)
    else:
        for profile in profiles:
            print_profile(profile, str(artifact), top)


def _print(measured: Sequence[Mapping[str, float]], title: str) -> None:
    from relay_int8.cli.terminal import show, table, terminal

    console = terminal()
    columns = ("threads", "streams", "batch", "median ms", "10 % ms", "90 % ms", "images/s")
    rows = table(console, *columns, right=columns)
    for row in measured:
        counts = (str(row[key]) for key in ("threads", "streams", "batch"))
        times = (f"{row[key]:.3f}" for key in ("median_ms", "low_ms", "high_ms"))
        rows.add_row(*counts, *times, f"{row['images_s']:.1f}")
    show(console, title, rows)


def _check_batch(artifact: Path, batch: int) -> None:
    """Refuse a batch that the artifact does not take."""
    import relay_int8

    manifest = relay_int8.read_manifest(artifact)
    if manifest.max_batch is None and batch != 1:
        raise ConfigError(
            f"{artifact} was built for one batch, --batch {batch} is for those of quantize "
            "--max-batch; leave it out"
        )
    if manifest.max_batch is not None and batch > manifest.max_batch:
        raise ConfigError(f"{artifact} takes batches 1 to {manifest.max_batch}, not {batch}")


def _row(inputs: Mapping[str, np.ndarray], times_ms: Sequence[float]) -> dict[str, float]:
    """Return the batch, the median, the first and last tenth, and the images of a second."""
    import numpy as np

    low, median, high = (float(value) for value in np.percentile(times_ms, (10, 50, 90)))
    batch = next((len(array) for array in inputs.values() if array.ndim), 1)
    times = {"median_ms": median, "low_ms": low, "high_ms": high}
    return {"batch": batch, **times, "images_s": batch * 1e3 / median}
