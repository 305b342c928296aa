"""``relay-int8 export-qdq``: a model and images or a table in, a QDQ ONNX file out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relay_int8.cli.model import Cut, Inputs, Model, Params, import_options
from relay_int8.cli.options import (
    Batch,
    BiasCorrection,
    Exclude,
    Method,
    OptionalData,
    Preprocess,
    Preset,
    Table,
    chosen_source,
)
from relay_int8.cli.words import METHOD, PRESET


class Bias(StrEnum):
    """How the biases of integer layers are written."""

    int32 = "int32"
    float = "float"


def export_qdq(
    model: Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")],
    data: OptionalData = None,
    table: Table = None,
    preprocess: Preprocess = None,
    preset: Preset = PRESET,
    method: Method = METHOD,
    exclude: Exclude = None,
    bias: Annotated[
        Bias, typer.Option(help="int32 for ONNX Runtime, float for TensorRT.")
    ] = Bias.int32,
    bias_correction: BiasCorrection = True,
    batch: Batch = None,
    open_batch: Annotated[
        bool, typer.Option("--open-batch", help="Leave the batch of the file open.")
    ] = False,
    shapes: Inputs = None,
    cut: Cut = None,
    params: Params = None,
) -> None:
    """Quantize a model and write it as QDQ ONNX, for ONNX Runtime or TensorRT.

    TensorRT takes --preset int8-symmetric.

    For example, from a TensorRT 10 calibration cache to TensorRT 11: relay-int8 export-qdq
    resnet50.onnx --table calib.cache --preset int8-symmetric --bias float
    --no-bias-correction -o resnet50_qdq.onnx
    """
    if data is None and table is None:
        raise typer.BadParameter("give either --data or --table")
    import relay_int8
    from relay_int8.cli.preprocess import named_preprocessing
    from relay_int8.cli.progress import progress_report
    from relay_int8.cli.summary import print_hazards
    from relay_int8.cli.terminal import terminal
    from relay_int8.files import require_outputs

    require_outputs(output, read=(model, data, table, params))
    source = chosen_source(data, table, method)
    assert source is not None
    config = relay_int8.QuantConfig(
        preset=preset, method=method, exclude=tuple(exclude or ()), bias_correction=bias_correction
    )
    console = terminal()
    console.print(f"{model} -> {output}", soft_wrap=True)
    chosen = f"method: {method}" if table is None else f"table: {table}"
    console.print(f"preset: {preset}; {chosen}; bias: {bias.value}", soft_wrap=True)
    with progress_report() as progress:
        quantized = relay_int8.export_model(
            model,
            source,
            output,
            config=config,
            imports=import_options(
                1 if open_batch and batch is None else batch, shapes, params, cut
            ),
            open_batch=open_batch,
            preprocessing=named_preprocessing(preprocess),
            bias=bias.value,
            progress=progress,
        )
    print_hazards(quantized.hazards, console)
    integer, layers = quantized.integer_layers
    console.print(f"{integer} of {layers} layers in integers; model {quantized.digest[:12]}")
