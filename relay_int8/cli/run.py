"""``relay-int8 run``: arrays in, arrays out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8.cli.model import Artifact
from relay_int8.cli.options import MAX_THREADS


def run(
    artifact: Artifact,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input", "-i", metavar="[NAME=]FILE", help="A .npy file; NAME for several inputs."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Where to write: .npz, or .npy for a single output."),
    ],
    threads: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_THREADS, help="Threads; the runtime's choice if not given."),
    ] = None,
) -> None:
    """Run an artifact on arrays and save what comes out.

    Arrays have the shape and type that inspect shows; nothing is converted.
    """
    import relay_int8
    from relay_int8.cli.arrays import check_output, input_files, read_arrays, write_arrays

    module = relay_int8.load(artifact, threads=threads)
    names = [info.name for info in module.manifest.outputs]
    check_output(output, names, [artifact, *input_files(inputs)])
    outputs = module.run(read_arrays(inputs, module.manifest.inputs[0].name))
    write_arrays(output, outputs)
    for name, array in outputs.items():
        typer.echo(f"{name}: {array.dtype} {array.shape}")
