"""Options that several commands have in common, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8.cli.words import (
    METHOD,
    METHODS,
    PREPARATIONS,
    PRESETS,
    REQUANTIZE,
    ROUNDINGS,
    Requantize,
    among,
)
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    from relay_int8 import CalibrationTable

INTEGERS = "How integers are chosen"
"""Group of options on help pages, as MODEL_FILE is; the everyday ones stand first, in none."""

_DATA = typer.Option(
    help="Calibration images: a folder of pictures, a .npy file with images along its first axis, "
    "or a .npz file with an array for each input. A few hundred are enough."
)
Data = Annotated[Path, _DATA]
OptionalData = Annotated[Path | None, _DATA]
Table = Annotated[
    Path | None,
    typer.Option(
        help="Calibration table to use instead of images: relay-int8's own, another tool's (a "
        "TensorRT cache for instance), or your numbers as JSON; see relay-int8 table.",
        rich_help_panel=INTEGERS,
    ),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        help=f"How pictures become the input: {', '.join(PREPARATIONS)}, or a .json or .toml file "
        "with any of resize, crop, scale, mean, deviation, channels, layout.",
        autocompletion=among(PREPARATIONS),
    ),
]
Preset = Annotated[
    str,
    typer.Option(
        help=f"Scheme of the integers: {', '.join(PRESETS)}.",
        autocompletion=among(PRESETS),
        rich_help_panel=INTEGERS,
    ),
]
Method = Annotated[
    str,
    typer.Option(
        help=f"How ranges are chosen: {', '.join(METHODS)}.",
        autocompletion=among(METHODS),
        rich_help_panel=INTEGERS,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        help="Tensor or operator type that stays in float; may be repeated.",
        rich_help_panel=INTEGERS,
    ),
]
BiasCorrection = Annotated[
    bool,
    typer.Option(
        "--bias-correction/--no-bias-correction",
        help="Correct each layer's bias by the mean error that quantized weights cause.",
        rich_help_panel=INTEGERS,
    ),
]
RequantizeName = Annotated[
    str,
    typer.Option(
        "--requantize",
        help="How int32 sums become 8-bit integers: float (float32 multipliers) or fixed (integer "
        "multipliers and shifts, for devices without floats).",
        autocompletion=among(REQUANTIZE),
        rich_help_panel=INTEGERS,
    ),
]
RoundingName = Annotated[
    str | None,
    typer.Option(
        "--rounding",
        help=f"Rounding with --requantize fixed: {', '.join(ROUNDINGS)}; {ROUNDINGS[0]} if not "
        "given.",
        autocompletion=among(ROUNDINGS),
        rich_help_panel=INTEGERS,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON to standard output in place of the table.")
]
MAX_THREADS = 1024
"""That of the runtime, which commands do not import before they need it."""
Batch = Annotated[
    int | None,
    typer.Option(min=1, help="Batch to use if the model leaves it open; 1 if not given."),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        help="Classes: a .npy file, or a text file with one class on each line, in the order of "
        "the images; a .csv or .json file of file names and classes; or the folder of the "
        "pictures, if its subfolders are the classes."
    ),
]


def chosen_requantize(name: str, rounding: str | None) -> Requantize:
    """Return the configuration's word for ``--requantize`` and ``--rounding``.

    Raises
    ------
    typer.BadParameter
        If there is no such one, or a rounding of float multipliers is asked for.
    """
    if name not in REQUANTIZE:
        raise typer.BadParameter(f"--requantize {name}: float or fixed is expected")
    if name == "float":
        if rounding is not None:
            raise typer.BadParameter(f"--rounding {rounding} is of --requantize fixed; give both")
        return "float"
    for known in ROUNDINGS:
        if rounding in (None, known):
            return known
    raise typer.BadParameter(f"--rounding {rounding}: {', '.join(ROUNDINGS)} are known")


def chosen_source(
    data: Path | None, table: Path | None, method: str
) -> Path | CalibrationTable | None:
    """Return what ranges come from: images, or the table in a file of any tool; None for neither.

    Raises
    ------
    typer.BadParameter
        For both.
    ConfigError
        The table names layers, not tensors; or a ``method`` was chosen too.
    """
    if data and table:
        raise typer.BadParameter("give either --data or --table")
    if table is None:
        return data
    if method != METHOD:
        raise ConfigError(
            f"{table} holds the ranges: --method {method} would have no effect; leave it out, or "
            "give the images with --data"
        )
    # Here, not above: help and usage errors must not wait for NumPy.
    from relay_int8 import read_table

    read = read_table(table)
    if read.names_layers:
        raise ConfigError(
            f"{table}: a table of ncnn lists layers, but a table of tensors is needed; convert it "
            f"with: relay-int8 table convert {table} table.json --model MODEL"
        )
    return read.table
