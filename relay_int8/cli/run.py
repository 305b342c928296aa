"""``relay-int8 run``: arrays in, arrays out."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import relay_int8
from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic


def run(
    artifact: Annotated[Path, typer.Argument(help="Artifact (.ri8) that quantize wrote.")],
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
        int | None, typer.Option(min=1, help="Threads; the runtime's choice if not given.")
    ] = None,
) -> None:
    """Run an artifact on arrays and save what comes out.

    Arrays have the shape and type that inspect shows; nothing is converted.
    """
    module = relay_int8.load(artifact, threads=threads)
    names = [info.name for info in module.manifest.outputs]
    if output.suffix not in (".npy", ".npz") or (output.suffix == ".npy" and len(names) > 1):
        raise ConfigError(f"{output}: outputs are {', '.join(names)}; name a .npz file for them")
    outputs = module.run(_read(inputs, module.manifest.inputs[0].name))
    _write(output, outputs)
    for name, array in outputs.items():
        typer.echo(f"{name}: {array.dtype} {array.shape}")


def _read(inputs: list[str], only: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return the arrays of ``[NAME=]FILE`` arguments; a file without a name is input ``only``."""
    arrays = {}
    for argument in inputs:
        name, _, file = argument.rpartition("=")
        try:
            arrays[name or only] = np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise ConfigError(f"{file}: cannot be read as a NumPy array: {error}") from error
    return arrays


def _write(path: Path, outputs: dict[str, np.ndarray[Any, Any]]) -> None:
    buffer = io.BytesIO()
    if path.suffix == ".npy":
        np.save(buffer, next(iter(outputs.values())), allow_pickle=False)
    else:
        np.savez(buffer, allow_pickle=False, **outputs)
    try:
        write_atomic(path, buffer.getvalue())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error}") from error
