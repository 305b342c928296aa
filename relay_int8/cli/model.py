"""A model or an artifact, and options that say what a model file leaves open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8 import ImportOptions
from relay_int8.cli.option_names import with_options
from relay_int8.file_names import instead_of_artifact, instead_of_model

ARTIFACT = ".ri8"
TRUTHS = {"true": True, "false": False}
MODEL_FILE = "What the model file leaves open"


def _a_model(path: Path) -> Path:
    if path.suffix.lower() == ARTIFACT:
        raise typer.BadParameter(
            f"{path} is an artifact, which quantize made of a model: give that model; inspect, "
            "bench, run, evaluate and deploy take artifacts"
        )
    return known_file(path)


def known_file(path: Path) -> Path:
    """Refuse parts of an MXNet model, and say which file to give; others are checked later."""
    if advice := instead_of_model(path):
        raise typer.BadParameter(with_options(advice))
    return path


def _an_artifact(path: Path) -> Path:
    if advice := instead_of_artifact(path):
        raise typer.BadParameter(f"{advice}; inspect takes models too")
    return path


Model = Annotated[
    Path,
    typer.Argument(
        dir_okay=False,
        callback=_a_model,
        help="Model: ONNX, TFLite, PyTorch (.pt2) or MXNet (-symbol.json).",
    ),
]
Artifact = Annotated[
    Path,
    typer.Argument(
        dir_okay=False, callback=_an_artifact, help="Artifact (.ri8) that quantize wrote."
    ),
]


def _well_formed(given: list[str] | None) -> list[str] | None:
    _inputs(given)
    return given


Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        callback=_well_formed,
        help="Shape of an input, if the model file does not contain it or leaves it open: "
        "data=1,3,224,224. Or its value, if that never changes: rate==16000, flag==True. May be "
        "repeated.",
        rich_help_panel=MODEL_FILE,
    ),
]
Cut = Annotated[
    list[str] | None,
    typer.Option(
        help="Tensor of the file that is an output, in place of those that the file names: what "
        "lies behind is left out. May be repeated.",
        rich_help_panel=MODEL_FILE,
    ),
]
Params = Annotated[
    Path | None,
    typer.Option(
        help="File of the weights, if it cannot be found beside the model.",
        rich_help_panel=MODEL_FILE,
    ),
]


def import_options(
    batch: int | None,
    inputs: list[str] | None,
    params: Path | None,
    cut: list[str] | None,
) -> ImportOptions:
    """Return what the options of a command say of a model file."""
    shapes, values = _inputs(inputs)
    return ImportOptions(
        batch=batch, inputs=shapes, values=values, outputs=tuple(cut or ()), params=params
    )


def _inputs(
    given: list[str] | None,
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[float, ...]]]:
    """Return name -> shape of ``NAME=EXTENT,...``, and name -> values of ``NAME==NUMBER,...``."""
    shapes: dict[str, tuple[int, ...]] = {}
    values: dict[str, tuple[float, ...]] = {}
    for text in given or ():
        name, equals, numbers = text.rpartition("=")
        if name.removesuffix("=") in shapes | values:
            raise typer.BadParameter(f"--input {text}: that input is given before; give it once")
        try:
            if name.endswith("="):
                name = name.removesuffix("=")
                values[name] = tuple(_number(number) for number in numbers.split(","))
            else:
                shapes[name] = tuple(int(extent) for extent in numbers.split(","))
        except ValueError:
            equals = ""
        if not equals or not name or min(shapes.get(name, (1,))) < 1:
            raise typer.BadParameter(
                f"--input {text}: expected a shape, NAME=1,3,224,224, or a value, NAME==16000 "
                "or NAME==True"
            )
    return shapes, values


def _number(text: str) -> float:
    if text.lower() in TRUTHS:
        return TRUTHS[text.lower()]
    try:
        return int(text)
    except ValueError:
        return float(text)
