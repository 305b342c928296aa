"""``relay-int8 run``: arrays or pictures in, arrays or classes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8 import finite_json
from relay_int8.cli.model import Artifact
from relay_int8.cli.options import MAX_THREADS, AsJson, Preprocess
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from relay_int8 import Module

ARRAYS = (".npy", ".npz")
TOP = 5  # classes that are printed of each image


def run(
    artifact: Artifact,
    pictures: Annotated[
        list[Path] | None,
        typer.Argument(help="Pictures to run, one after the other, if the artifact has one input."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]FILE",
            help="A .npy file for an input; NAME is needed if there are several.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where to write the outputs: .npz, or .npy for a single one. Without it the "
            "largest values of the first output are printed.",
        ),
    ] = None,
    preprocess: Preprocess = None,
    classes: Annotated[
        Path | None,
        typer.Option(
            help="Text file with the name of a class on each line, to print with the values."
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, max=MAX_THREADS, help="Threads to run on; by default the runtime chooses."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an artifact on pictures or arrays: print the classes it finds, or save what comes out.

    Pictures are prepared as in quantize, if --preprocess does not say otherwise. Arrays have the
    shape and type that inspect shows; nothing is converted. For example: relay-int8 run
    resnet50.ri8 photo.jpg
    """
    if bool(pictures) == bool(inputs):
        raise typer.BadParameter("give either pictures, or arrays with --input")
    if as_json and output is not None:
        raise typer.BadParameter("--json prints what --output would save; give one of them")
    if pictures and output is not None and len(pictures) > 1:
        raise typer.BadParameter("--output is for one picture; give arrays for several")
    for path in pictures or ():
        if path.suffix.lower() in ARRAYS:
            raise typer.BadParameter(f"{path} holds arrays, not a picture: give it with --input")
    import relay_int8
    from relay_int8.cli.arrays import check_output, input_files, read_arrays, write_arrays

    names = _class_names(classes)
    module = relay_int8.load(artifact, threads=threads)
    if output is not None:
        outputs = [info.name for info in module.manifest.outputs]
        check_output(output, outputs, [artifact, *(pictures or ()), *input_files(inputs or ())])
    if inputs:
        batches = {"": read_arrays(inputs, module.manifest.inputs[0].name)}
    else:
        batches = _prepared(module, pictures or [], preprocess, artifact)
    found: list[dict[str, Any]] = []
    for title, arrays in batches.items():
        results = module.run(arrays)
        if title:
            results = {name: array[:1] for name, array in results.items()}
        if output is None:
            images = _top(title, next(iter(results.values())), names)
            found += images
            if not as_json:
                _print(images)
            continue
        write_arrays(output, results)
        for name, array in results.items():
            typer.echo(f"{name}: {array.dtype} {array.shape}")
    if as_json:
        typer.echo(finite_json.dumps(found), nl=False)


def _prepared(
    module: Module, pictures: list[Path], preprocess: str | None, artifact: Path
) -> dict[str, dict[str, np.ndarray]]:
    """Return the input that each picture becomes, repeated to the artifact's batch."""
    import numpy as np

    import relay_int8
    from relay_int8.cli.preprocess import named_preprocessing

    inputs = module.manifest.inputs
    recipe = named_preprocessing(preprocess)
    if recipe is None and not module.manifest.preprocessing:
        raise ConfigError(
            f"{artifact} does not say how pictures become its input: it was not calibrated on any; "
            "give --preprocess"
        )
    recipe = recipe or relay_int8.Preprocessing.from_dict(module.manifest.preprocessing)
    batches = {}
    for path in pictures:
        (image,) = relay_int8.open_pictures([path], inputs, recipe)
        size = max(inputs[0].shape[0], 1)
        batches[str(path)] = {name: np.repeat(array, size, 0) for name, array in image.items()}
    return batches


def _class_names(file: Path | None) -> list[str]:
    if file is None:
        return []
    try:
        return file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read as names of classes: {error}") from error


def _top(title: str, output: np.ndarray, names: list[str]) -> list[dict[str, Any]]:
    """Return the greatest values of each image, and their indices and names."""
    rows = output.reshape(len(output) if output.ndim else 1, -1)
    return [
        {
            "image": title or f"image {number}",
            "classes": [
                {
                    "index": int(index),
                    "value": float(scores[index]),
                    "name": names[index] if index < len(names) else None,
                }
                for index in scores.argsort(kind="stable")[::-1][:TOP]
            ],
        }
        for number, scores in enumerate(rows)
    ]


def _print(images: list[dict[str, Any]]) -> None:
    for image in images:
        typer.echo(image["image"])
        for found in image["classes"]:
            name = f"  {found['name']}" if found["name"] is not None else ""
            typer.echo(f"  {found['index']:5}  {found['value']:.4g}{name}")
