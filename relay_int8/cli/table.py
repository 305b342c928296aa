"""``relay-int8 table``: calibration tables of all tools, converted, shown, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8 import finite_json
from relay_int8.cli.exits import unmet
from relay_int8.cli.model import Inputs, Params, input_shapes
from relay_int8.cli.options import AsJson, Exclude, Preset
from relay_int8.cli.words import FORMATS, PRESET
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    from relay_int8.calibration.table import CalibrationTable

NAMES = ", ".join(FORMATS)
table = typer.Typer(
    no_args_is_help=True,
    help=f"Convert, show and compare calibration tables. Formats: {NAMES}.",
)
Model = Annotated[
    Path | None,
    typer.Option(help="Model to fit the table to: names, types and channels are checked."),
]
Form = Annotated[str | None, typer.Option(help=f"Format, if not recognized: {NAMES}.")]


@table.command()
def convert(
    source: Annotated[Path, typer.Argument(help="Table to read; its format is recognized.")],
    target: Annotated[Path, typer.Argument(help="Table to write; its name tells the format.")],
    model: Model = None,
    preset: Preset = PRESET,
    exclude: Exclude = None,
    inputs: Inputs = None,
    params: Params = None,
    source_format: Annotated[
        str | None, typer.Option("--from", help="Format of the first table, if not recognized.")
    ] = None,
    target_format: Annotated[
        str | None, typer.Option("--to", help=f"Format to write: {NAMES}.")
    ] = None,
) -> None:
    """Write a calibration table in another tool's format, and say what that format cannot carry.

    --preset and --exclude are those that the model will be quantized with.

    For example: relay-int8 table convert calib.trt table.json --from tensorrt --model resnet50.onnx
    """
    from relay_int8.calibration.formats import find_format, format_of_name, read_table
    from relay_int8.calibration.formats.ncnn import NAME as NCNN
    from relay_int8.files import require_outputs, write_atomic
    from relay_int8.report import terminal

    form = find_format(target_format) if target_format else format_of_name(target)
    require_outputs(target, read=(source, model, params))
    exchange, found = read_table(source, find_format(source_format) if source_format else None)
    if model is None and (form.name == NCNN) != (found.name == NCNN):
        raise ConfigError(
            f"{source}: {found.name} found, {form.name} is to be written: a table of ncnn lists "
            "layers, others list tensors; give --model, which has the input of each layer"
        )
    told = exchange.table.notes
    if model is not None:
        # Reading a model needs TVM; converting text does not.
        from relay_int8.quantization.config import QuantConfig
        from relay_int8.quantization.model_tensors import ModelTensors

        tensors = ModelTensors.of(
            model,
            QuantConfig(preset=preset, exclude=tuple(exclude or ())),
            inputs=input_shapes(inputs),
            params=params,
        )
        by_layers = found.name == NCNN
        exchange = tensors.by_tensor(exchange) if by_layers else tensors.fitted(exchange)
        exchange = tensors.by_layer(exchange) if form.name == NCNN else exchange
    lost = form.losses(exchange)
    write_atomic(target, form.write(exchange).encode())
    console = terminal.terminal()
    console.print(f"{source} ({found.name}) -> {target} ({form.name})", soft_wrap=True)
    console.print(f"{len(exchange.table.entries)} tensors", soft_wrap=True)
    for sentence in lost:
        console.print(f"lost: {sentence}", soft_wrap=True)
    for note in exchange.table.notes[len(told) :]:
        console.print(f"note: {note}", soft_wrap=True)


@table.command()
def show(
    file: Annotated[Path, typer.Argument(help="Table of any format, or a TPU-MLIR qtable.")],
    form: Form = None,
    as_json: AsJson = False,
) -> None:
    """Show the ranges and scales of a calibration table."""
    from relay_int8.calibration.formats import find_format, read_table
    from relay_int8.calibration.formats.qtable import excluded, is_qtable, load_qtable
    from relay_int8.report import terminal

    console = terminal.terminal()
    if is_qtable(file):
        modes = load_qtable(file)
        if as_json:
            typer.echo(finite_json.dumps(dict(modes)), nl=False)
            return
        rows = terminal.table(console, "Operator", "Mode")
        for name, mode in modes.items():
            rows.add_row(name, mode)
        terminal.show(console, f"{file} (tpu-mlir qtable)", rows)
        console.print(" ".join(f"--exclude {name!r}" for name in excluded(modes)), soft_wrap=True)
        return
    exchange, found = read_table(file, find_format(form) if form else None)
    if as_json:
        typer.echo(finite_json.dumps(_values(exchange.table, found.name)), nl=False)
        return
    rows = terminal.table(
        console, "Tensor", "Type", "Low", "High", "Scale", "Method", right=("Low", "High", "Scale")
    )
    for name, item in exchange.table.entries.items():
        scale = str(item.qparams().scale)
        rows.add_row(name, item.scheme, str(item.low), str(item.high), scale, item.method)
    terminal.show(console, f"{file} ({found.name})", rows)
    for note in exchange.table.notes:
        console.print(note, soft_wrap=True)


@table.command()
def diff(
    first: Annotated[Path, typer.Argument(help="Table of any format.")],
    second: Annotated[Path, typer.Argument(help="Table of any format.")],
    max_relative: Annotated[
        float | None,
        typer.Option(help="Exit with 3 if a threshold differs by a greater share of the larger."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the thresholds of two calibration tables; the greatest differences come first."""
    from relay_int8.calibration.formats import read_table
    from relay_int8.calibration.formats.exchange import threshold
    from relay_int8.calibration.formats.ncnn import NAME as NCNN
    from relay_int8.report import terminal

    read = [read_table(path) for path in (first, second)]
    tables = [exchange.table for exchange, _ in read]
    shares = _differences(*tables)
    names = [set(each.entries) for each in tables]
    only = [sorted(names[0] - names[1]), sorted(names[1] - names[0])]
    if as_json:
        files = {str(path): alone for path, alone in zip((first, second), only, strict=True)}
        typer.echo(finite_json.dumps({"differences": shares, "only_in": files}), nl=False)
        _judge(shares, only, max_relative)
        return
    console = terminal.terminal()
    rows = terminal.table(console, "Tensor", "First", "Second", "Difference", right=("Difference",))
    for name, share in shares.items():
        if share:
            limits = (str(threshold(each.entries[name])) for each in tables)
            rows.add_row(name, *limits, f"{share:.3%}")
    equal = sum(share == 0 for share in shares.values())
    terminal.show(console, f"{equal} of {len(shares)} common thresholds are equal", rows)
    for path, alone in zip((first, second), only, strict=True):
        if alone:
            console.print(f"only in {path}: {', '.join(alone)}", soft_wrap=True)
    if sum(found.name == NCNN for _, found in read) == 1:
        console.print("ncnn's names are layers, its ranges those of their inputs: convert it first")
    _judge(shares, only, max_relative)


def _judge(
    shares: Mapping[str, float], only: Sequence[Sequence[str]], max_relative: float | None
) -> None:
    """End with exit code 3 where tables differ by more than was allowed."""
    greatest = max(shares.values(), default=0.0)
    if max_relative is not None and (greatest > max_relative or any(only)):
        unmet(f"thresholds differ by {greatest:.3%} at most, {sum(map(len, only))} are in one only")


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


def _differences(first: CalibrationTable, second: CalibrationTable) -> dict[str, float]:
    """Return name -> difference as a share of the larger threshold, the greatest first."""
    from relay_int8.calibration.formats.exchange import threshold

    shares = {}
    for name in first.entries:
        if name in second.entries:
            a, b = (float(threshold(each.entries[name])) for each in (first, second))
            shares[name] = abs(a - b) / max(a, b, 1e-300)
    return dict(sorted(shares.items(), key=lambda item: -item[1]))
