"""``relay-int8 table``: calibration tables of all tools, converted, shown, compared."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8 import finite_json
from relay_int8.cli.exits import unmet
from relay_int8.cli.help_page import GroupedCommand
from relay_int8.cli.model import Cut, Inputs, Params, import_options
from relay_int8.cli.options import AsJson, Exclude, Preset
from relay_int8.cli.words import FORMATS, PRESET, among
from relay_int8.files import require_outputs

if TYPE_CHECKING:
    from relay_int8 import CalibrationTable, OperatorModes, TableComparison

NAMES = ", ".join(FORMATS)
table = typer.Typer(
    no_args_is_help=True,
    help=f"Convert, show and compare calibration tables. Formats: {NAMES}.",
)
Model = Annotated[
    Path | None,
    typer.Option(help="Model to fit the table to: names, types and channels are checked."),
]
Form = Annotated[
    str | None,
    typer.Option(help=f"Format, if not recognized: {NAMES}.", autocompletion=among(FORMATS)),
]


@table.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Table to read; its format is recognized.")],
    target: Annotated[Path, typer.Argument(help="Table to write; its name tells the format.")],
    model: Model = None,
    preset: Preset = PRESET,
    exclude: Exclude = None,
    inputs: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Format of the first table, if not recognized.",
            autocompletion=among(FORMATS),
        ),
    ] = None,
    target_format: Annotated[
        str | None,
        typer.Option("--to", help=f"Format to write: {NAMES}.", autocompletion=among(FORMATS)),
    ] = None,
) -> None:
    """Write a calibration table in another tool's format, and say what that format cannot carry.

    --preset and --exclude are those that the model will be quantized with.

    For example: relay-int8 table convert calib.trt table.json --from tensorrt --model resnet50.onnx
    """
    import relay_int8
    from relay_int8.cli import terminal

    require_outputs(target, read=(source, model, params))
    # Reading a model needs TVM; converting text does not.
    network = (
        relay_int8.load_model(model, import_options(1, inputs, params, cut)) if model else None
    )
    conversion = relay_int8.convert_table(
        source,
        target,
        model=network,
        config=relay_int8.QuantConfig(preset=preset, exclude=tuple(exclude or ())),
        source_format=source_format,
        target_format=target_format,
    )
    console = terminal.terminal()
    console.print(
        f"{source} ({conversion.source_format}) -> {target} ({conversion.target_format})",
        soft_wrap=True,
    )
    console.print(f"{conversion.tensors} tensors", soft_wrap=True)
    for sentence in conversion.losses:
        console.print(f"lost: {sentence}", soft_wrap=True)
    for note in conversion.notes:
        console.print(f"note: {note}", soft_wrap=True)


@table.command()
def show(
    file: Annotated[Path, typer.Argument(help="Table of any format, or a TPU-MLIR qtable.")],
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show the ranges and scales of a calibration table."""
    import relay_int8
    from relay_int8.cli import terminal

    qtable = relay_int8.read_qtable(file)
    if qtable is not None:
        _show_modes(file, qtable, as_json=as_json)
        return
    read = relay_int8.read_table(file, form)
    if as_json:
        typer.echo(finite_json.dumps(_values(read.table, read.format)), nl=False)
        return
    console = terminal.terminal()
    rows = terminal.table(
        console, "Tensor", "Type", "Low", "High", "Scale", "Method", right=("Low", "High", "Scale")
    )
    for name, item in read.table.entries.items():
        scale = str(item.qparams().scale)
        rows.add_row(name, item.scheme, str(item.low), str(item.high), scale, item.method)
    terminal.show(console, f"{file} ({read.format})", rows)
    for note in read.table.notes:
        console.print(note, soft_wrap=True)


@table.command(cls=GroupedCommand)
def diff(
    first: Annotated[Path, typer.Argument(help="Table of any format.")],
    second: Annotated[Path, typer.Argument(help="Table of any format.")],
    max_relative: Annotated[
        float | None,
        typer.Option(
            min=0, help="Exit with 3 if a threshold differs by a greater share of the larger."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the thresholds of two calibration tables; the greatest differences come first."""
    import relay_int8
    from relay_int8.cli import terminal

    files = [relay_int8.read_table(path) for path in (first, second)]
    comparison = relay_int8.compare_tables(files[0].table, files[1].table)
    only = {str(first): comparison.only_in_first, str(second): comparison.only_in_second}
    if as_json:
        values = {"differences": comparison.differences, "only_in": only}
        typer.echo(finite_json.dumps(values), nl=False)
        _judge(comparison, max_relative)
        return
    console = terminal.terminal()
    rows = terminal.table(console, "Tensor", "First", "Second", "Difference", right=("Difference",))
    for name, share in comparison.differences.items():
        if share:
            rows.add_row(name, *(f"{x:.7g}" for x in comparison.thresholds[name]), f"{share:.3%}")
    shares = comparison.differences.values()
    equal = sum(share == 0 for share in shares)
    terminal.show(console, f"{equal} of {len(shares)} common thresholds are equal", rows)
    for path, names in only.items():
        if names:
            console.print(f"only in {path}: {', '.join(names)}", soft_wrap=True)
    if sum(file.names_layers for file in files) == 1:
        console.print("ncnn's names are layers, its ranges those of their inputs: convert it first")
    _judge(comparison, max_relative)


def _show_modes(file: Path, qtable: OperatorModes, *, as_json: bool) -> None:
    if as_json:
        typer.echo(finite_json.dumps(dict(qtable.modes)), nl=False)
        return
    from relay_int8.cli import terminal

    console = terminal.terminal()
    rows = terminal.table(console, "Operator", "Mode")
    for name, mode in qtable.modes.items():
        rows.add_row(name, mode)
    terminal.show(console, f"{file} (tpu-mlir qtable)", rows)
    console.print(" ".join(f"--exclude {name!r}" for name in qtable.excluded), soft_wrap=True)


def _judge(comparison: TableComparison, max_relative: float | None) -> None:
    """End with exit code 3 where tables differ by more than was allowed."""
    greatest = max(comparison.differences.values(), default=0.0)
    single = len(comparison.only_in_first) + len(comparison.only_in_second)
    if max_relative is not None and (greatest > max_relative or single):
        unmet(f"thresholds differ by {greatest:.3%} at most, {single} are in one only")


def _values(table: CalibrationTable, form: str) -> dict[str, Any]:
    """Return what ``show`` prints of a table, as plain values."""
    tensors = {
        name: {
            "type": item.scheme,
            "low": float(item.low),
            "high": float(item.high),
            "scale": float(item.qparams().scale),
            "method": item.method,
        }
        for name, item in table.entries.items()
    }
    return {"format": form, "tensors": tensors, "notes": list(table.notes)}
