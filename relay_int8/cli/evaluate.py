"""``relay-int8 evaluate``: how good an artifact's outputs are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8.cli.exits import unmet
from relay_int8.cli.model import Artifact, Cut, Inputs, Params, import_options
from relay_int8.cli.options import AsJson, Labels, Preprocess
from relay_int8.errors import ConfigError

if TYPE_CHECKING:
    from relay_int8 import Evaluation, ImportOptions, Module


def evaluate(
    artifact: Artifact,
    data: Annotated[
        Path, typer.Option(help="Images: a folder of pictures, a .npy or a .npz file.")
    ],
    labels: Labels = None,
    fp32: Annotated[
        Path | None,
        typer.Option(help="The float model that the artifact was made from, to compare with."),
    ] = None,
    input_shape: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    preprocess: Preprocess = None,
    output: Annotated[
        str | None, typer.Option(help="Name of the output to score; by default the first one.")
    ] = None,
    min_top1: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Exit with 3 below this top-1 accuracy (0..1)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Where to write the numbers as JSON; the command report can show them."),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option(help="Exit with 3 if top-1 is more than this many points below FP32."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an artifact's accuracy: against labels, and against the FP32 model.

    Pictures are prepared as in quantize, if --preprocess does not say otherwise. Give --labels,
    --fp32 or both. The signal-to-noise ratio against FP32 needs no labels, and
    resolves more than a few hundred images do.
    """
    if labels is None and fp32 is None:
        raise typer.BadParameter("give --labels, --fp32 or both: there is nothing to compare with")
    _check_demands(min_top1, max_drop, labels, fp32)
    import relay_int8
    from relay_int8.cli.preprocess import named_preprocessing
    from relay_int8.files import require_outputs, write_atomic

    require_outputs(report, read=(artifact, data, labels, fp32, params))
    module = relay_int8.load(artifact)
    recipe = named_preprocessing(preprocess)
    if recipe is None and data.is_dir() and module.manifest.preprocessing:
        recipe = relay_int8.Preprocessing.from_dict(module.manifest.preprocessing)
    reference = (
        None
        if fp32 is None
        else _float_network(
            fp32, artifact, module, lambda batch: import_options(batch, input_shape, params, cut)
        )
    )
    result = relay_int8.evaluate(
        module,
        relay_int8.open_data(data, module.manifest.inputs, recipe),
        labels=None if labels is None else relay_int8.read_labels(labels, data),
        reference=reference,
        output=output,
    )
    if as_json:
        typer.echo(result.to_json(), nl=False)
    else:
        _print(result, str(artifact))
    if report is not None:
        write_atomic(report, result.to_json().encode())
    _judge(result, min_top1, max_drop)


def _float_network(
    model: Path, artifact: Path, module: Module, options: Callable[[int], ImportOptions]
) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return the float network, for the batch and the sizes that the artifact takes."""
    first = module.manifest.inputs[0]
    if first.dtype == "uint8":
        raise typer.BadParameter(
            f"{artifact} takes raw pixels, which an FP32 network does not: compare an artifact "
            "made without --pixels; its integers are the same"
        )
    import relay_int8

    batch = max(*first.shape[:1], 1, 1)
    said = options(batch)
    if said.inputs:
        return relay_int8.float_network(relay_int8.load_model(model, said))
    shapes = {info.name: (batch, *info.shape[1:]) for info in module.manifest.inputs if info.shape}
    try:
        read = relay_int8.load_model(model, replace(said, inputs=shapes))
    except ConfigError as error:
        raise ConfigError(
            f"{model} does not take the inputs of {artifact}, give the model that the artifact was "
            f"made from: {error}"
        ) from error
    return relay_int8.float_network(read)


def _check_demands(
    min_top1: float | None, max_drop: float | None, labels: Path | None, fp32: Path | None
) -> None:
    if min_top1 is not None and labels is None:
        raise typer.BadParameter("--min-top1 needs --labels")
    if max_drop is not None and (labels is None or fp32 is None):
        raise typer.BadParameter("--max-drop needs --labels and --fp32")


def _print(result: Evaluation, title: str) -> None:
    from relay_int8.cli.terminal import show, table, terminal
    from relay_int8.report.wording import decibels, shares

    console = terminal()
    columns = ("int8", "95 %", "FP32", "FP32, 95 %")
    rows = table(console, "", *columns, right=columns)
    if result.top1 is not None:
        rows.add_row("top-1", *shares(result, result.top1), *shares(result, result.reference_top1))
    if result.agreement is not None:
        rows.add_row("same class as FP32", *shares(result, result.agreement), "", "")
        rows.add_row("SNR against FP32", f"{decibels(result.snr_db)} dB", "", "", "")
    rows.add_row("images", str(result.samples), "", "", "")
    show(console, title, rows)


def _judge(result: Evaluation, min_top1: float | None, max_drop: float | None) -> None:
    """End with exit code 3 where a demand is not met."""
    top1, reference = result.top1, result.reference_top1
    if top1 is not None and min_top1 is not None and top1 < min_top1:
        unmet(f"top-1 is {top1:.4f}, at least {min_top1} was demanded")
    if top1 is not None and reference is not None and max_drop is not None:
        drop = round(100 * (reference - top1), 9)  # 0.615 - 0.605 is more than 0.01
        if drop > max_drop:
            unmet(f"top-1 is {drop:.2f} points below FP32, at most {max_drop} were allowed")
