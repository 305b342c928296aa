"""``relay-int8 calibrate``: a model and images in, a calibration table out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8.cli.exits import telling_what_is_written
from relay_int8.cli.model import Cut, Inputs, Model, Params, import_options
from relay_int8.cli.options import Batch, Data, Exclude, Method, Preprocess, Preset
from relay_int8.cli.words import METHOD, PRESET


def calibrate(
    model: Model,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Table to write, as JSON.")],
    preprocess: Preprocess = None,
    preset: Preset = PRESET,
    method: Method = METHOD,
    exclude: Exclude = None,
    batch: Batch = None,
    shapes: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    keep_histograms: Annotated[
        bool, typer.Option("--keep-histograms", help="Also write the histogram behind each range.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue a run that was killed, from its OUTPUT.partial."),
    ] = False,
    checkpoint_seconds: Annotated[
        float,
        typer.Option(min=0, help="Seconds between two writes of OUTPUT.partial while it runs."),
    ] = 10.0,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of a Dask scheduler; its workers share the images.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes of this computer to share the images among."),
    ] = None,
) -> None:
    """Calibrate a model: find the range of every tensor, and write the table.

    The table is the same whatever the batches, the order, the workers and the interruptions; only
    moving-average follows the order. For example: relay-int8 calibrate resnet50.onnx --data images/
    --preprocess imagenet --method percentile -o table.json --workers 2
    """
    import relay_int8
    from relay_int8.cli.preprocess import named_preprocessing
    from relay_int8.cli.progress import progress_report
    from relay_int8.cli.terminal import terminal
    from relay_int8.files import require_outputs

    require_outputs(output, read=(model, data, params))
    console = terminal()
    console.print(f"{model} -> {output}", soft_wrap=True)
    where = scheduler or (f"{workers} processes" if workers else "this process")
    console.print(f"preset: {preset}; method: {method}; on: {where}", soft_wrap=True)
    partial = output.with_name(f"{output.name}.partial")
    with telling_what_is_written(output, partial=partial), progress_report() as progress:
        table = relay_int8.calibrate_model(
            model,
            data,
            output,
            config=relay_int8.QuantConfig(
                preset=preset, method=method, exclude=tuple(exclude or ())
            ),
            imports=import_options(batch, shapes, params, cut),
            preprocessing=named_preprocessing(preprocess),
            keep_histograms=keep_histograms,
            resume=resume,
            seconds=checkpoint_seconds,
            scheduler=scheduler,
            workers=workers,
            progress=progress,
        )
    console.print(f"{len(table.entries)} tensors from {table.images} images")
    for note in table.notes:
        console.print(note, soft_wrap=True)
