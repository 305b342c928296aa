"""``relay-int8 export-qdq``: a model and images or a table in, a QDQ ONNX file out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relay_int8.analysis.summary import terminal
from relay_int8.calibration import METHODS
from relay_int8.calibration.formats import read_table
from relay_int8.cli.model import MODEL, Inputs, Params, input_shapes
from relay_int8.cli.preprocess import HELP, named_preprocessing
from relay_int8.cli.progress import progress_report
from relay_int8.config import PRESETS, QuantConfig


class Bias(StrEnum):
    """How the biases of integer layers are written."""

    int32 = "int32"
    float = "float"


def export_qdq(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")],
    data: Annotated[
        Path | None, typer.Option(help="Calibration images, as quantize takes them.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Calibration table instead: any tool's, a TensorRT cache for instance."),
    ] = None,
    preprocess: Annotated[str | None, typer.Option(help=HELP)] = None,
    preset: Annotated[
        str,
        typer.Option(
            help=f"Scheme of the integers: {', '.join(PRESETS)}. TensorRT takes int8-symmetric."
        ),
    ] = "int8",
    method: Annotated[
        str, typer.Option(help=f"How ranges are chosen: {', '.join(METHODS)}.")
    ] = QuantConfig.method,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Tensor or operator type that stays in float; may be repeated."),
    ] = None,
    bias: Annotated[
        Bias, typer.Option(help="int32 for ONNX Runtime, float for TensorRT.")
    ] = Bias.int32,
    bias_correction: Annotated[
        bool,
        typer.Option(
            "--bias-correction/--no-bias-correction",
            help="Take the mean error of quantized weights out of each layer's bias.",
        ),
    ] = True,
    batch: Annotated[
        int | None, typer.Option(min=1, help="Batch of the file, if the model leaves it open.")
    ] = None,
    open_batch: Annotated[
        bool, typer.Option("--open-batch", help="Leave the batch of the file open.")
    ] = False,
    shapes: Inputs = None,
    params: Params = None,
) -> None:
    """Quantize a model and write it as QDQ ONNX, for ONNX Runtime or TensorRT.

    For example, from a TensorRT 10 calibration cache to TensorRT 11: relay-int8 export-qdq
    resnet50.onnx --table calib.cache --preset int8-symmetric --bias float
    --no-bias-correction -o resnet50_qdq.onnx
    """
    # Reading a model needs TVM; reading a table of another tool does not.
    from relay_int8.export.onnx_file import export_model

    source = data if table is None else read_table(table)[0].table
    if source is None or (data and table):
        raise typer.BadParameter("give either --data or --table")
    config = QuantConfig(
        preset=preset, method=method, exclude=tuple(exclude or ()), bias_correction=bias_correction
    )
    console = terminal()
    console.print(f"{model} -> {output}", soft_wrap=True)
    chosen = f"method: {method}" if table is None else f"table: {table}"
    console.print(f"preset: {preset}; {chosen}; bias: {bias.value}", soft_wrap=True)
    with progress_report() as progress:
        quantized = export_model(
            model,
            source,
            output,
            config=config,
            batch=1 if open_batch and batch is None else batch,
            open_batch=open_batch,
            inputs=input_shapes(shapes),
            params=params,
            preprocessing=named_preprocessing(preprocess),
            bias=bias.value,
            progress=progress,
        )
    layers = quantized.plan.layers
    integer = sum(layer.integer for layer in layers)
    console.print(f"{integer} of {len(layers)} layers in integers; model {quantized.digest[:12]}")
