"""``relay-int8 quantize``: a model and images in, an artifact out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import relay_int8
from relay_int8.analysis.summary import print_summary, terminal
from relay_int8.calibration import METHODS
from relay_int8.calibration.formats import read_table
from relay_int8.cli.model import MODEL, Inputs, Params, input_shapes
from relay_int8.cli.preprocess import HELP, named_preprocessing
from relay_int8.cli.progress import progress_report
from relay_int8.config import PRESETS, QuantConfig, chosen_tools
from relay_int8.pixels import PixelLayout
from relay_int8.plan import plan_exclusions


def quantize(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Artifact to write; by custom NAME.ri8.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            help="Calibration images: a folder of pictures, a .npy file with images along its "
            "first axis, or a .npz file with an array for each input. A few hundred are enough."
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            help="Calibration table to use instead of images: relay-int8's own, another tool's, or "
            "your numbers as JSON (see relay-int8 table)."
        ),
    ] = None,
    preprocess: Annotated[str | None, typer.Option(help=HELP)] = None,
    pixels: Annotated[
        str | None,
        typer.Option(
            help="Make an artifact that takes raw uint8 pictures, nchw or nhwc, and prepares them "
            "itself; needs --preprocess."
        ),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            help="Where it will run: native, x86-vnni, x86-avx2, x86, aarch64, cuda, or a TVM "
            "target as JSON. The integers are the same everywhere."
        ),
    ] = "native",
    arch: Annotated[
        str,
        typer.Option(
            help="For GPUs, whose code the artifact holds: native (those of this computer), all, "
            "or names as in sm_80,sm_90. Kernels are chosen for the oldest; newer ones get PTX."
        ),
    ] = "",
    cuda_graphs: Annotated[
        bool,
        typer.Option("--cuda-graphs/--no-cuda-graphs", help="For GPUs: launch kernels together."),
    ] = True,
    float16: Annotated[
        bool,
        typer.Option(
            "--float16", help="For GPUs: layers that stay in float multiply float16, sum float32."
        ),
    ] = False,
    preset: Annotated[
        str, typer.Option(help=f"Scheme of the integers: {', '.join(PRESETS)}.")
    ] = "int8",
    method: Annotated[
        str, typer.Option(help=f"How ranges are chosen: {', '.join(METHODS)}.")
    ] = QuantConfig.method,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Tensor or operator type that stays in float; may be repeated."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(help="Plan file, as sensitivity writes it: what it leaves in float stays."),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(help="Setting of an accuracy tool, as equalization=smooth; may be repeated."),
    ] = None,
    bias_correction: Annotated[
        bool,
        typer.Option(
            "--bias-correction/--no-bias-correction",
            help="Take the mean error of quantized weights out of each layer's bias.",
        ),
    ] = True,
    require_int8: Annotated[
        bool,
        typer.Option(
            "--require-int8", help="Exit with 3 if a layer that is not excluded stays in float."
        ),
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Batch of the artifact, if the model leaves it open."),
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option(min=2, help="Make one artifact for every batch from 1 to this."),
    ] = None,
    inputs: Inputs = None,
    params: Params = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the full report, as JSON; as a page if it is named *.html."
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(min=0, help="Images to compare each layer with FP32 on; 0 leaves it out."),
    ] = 8,
    tuning_logs: Annotated[
        Path | None,
        typer.Option(help="Folder of tuning logs, used before those that are shipped; see tune."),
    ] = None,
    records: Annotated[
        bool,
        typer.Option("--records/--no-records", help="Use tuning logs, or default schedules alone."),
    ] = True,
    require_tuned: Annotated[
        bool,
        typer.Option("--require-tuned", help="Fail if a kernel has no record in any log."),
    ] = False,
    threads: Annotated[
        int | None,
        typer.Option(min=1, help="Threads that it will run on; all cores if not given."),
    ] = None,
    qdq: Annotated[
        Path | None, typer.Option(help="Where to write the network as QDQ ONNX too.")
    ] = None,
    save_table: Annotated[
        Path | None, typer.Option(help="Where to write the calibration table, as JSON.")
    ] = None,
) -> None:
    """Quantize a model to int8 and compile it for a target.

    A model that is quantized already keeps its scales and needs neither --data nor --table.

    For example: relay-int8 quantize resnet50.onnx --data images/ --preprocess imagenet -o
    resnet50.ri8 --report report.json
    """
    if data and table:
        raise typer.BadParameter("give either --data or --table")
    source = data if table is None else read_table(table)[0].table
    config = QuantConfig(
        preset=preset,
        method=method,
        exclude=(*(exclude or ()), *(plan_exclusions(plan) if plan else ())),
        bias_correction=bias_correction,
        tools=chosen_tools(preset, tool or ()),
        require_int8=require_int8,
    )
    recipe = named_preprocessing(preprocess)
    console = terminal()
    resolved = {
        "preset": preset,
        "method": method if table is None else f"table {table}",
        "target": f"{target}, {arch}" if arch else target,
        "in float": ", ".join(config.exclude) or "nothing",
        "images": "as given" if recipe is None else f"prepared ({preprocess})",
    }
    console.print(f"{model} -> {output}", soft_wrap=True)
    console.print("; ".join(f"{key}: {value}" for key, value in resolved.items()), soft_wrap=True)
    with progress_report() as progress:
        result = relay_int8.compile_model(
            model,
            source,
            output,
            config=config,
            target=target,
            architectures=arch,
            cuda_graphs=cuda_graphs,
            float16=float16,
            batch=batch,
            max_batch=max_batch,
            inputs=input_shapes(inputs),
            params=params,
            preprocessing=recipe,
            pixels=_pixel_layout(pixels),
            report=report,
            table=save_table,
            qdq=qdq,
            samples=samples,
            tuning_logs=tuning_logs,
            records=records,
            threads=threads,
            require_tuned=require_tuned,
            progress=progress,
        )
    print_summary(result, console)


def _pixel_layout(name: str | None) -> PixelLayout | None:
    layouts: dict[str | None, PixelLayout | None] = {None: None, "nchw": "NCHW", "nhwc": "NHWC"}
    if name not in layouts:
        raise typer.BadParameter(f"--pixels {name}: nchw or nhwc is expected")
    return layouts[name]
