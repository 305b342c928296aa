"""``relay-int8 quantize``: a model and images in, an artifact out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

import relay_int8
from relay_int8.cli.model import Inputs, Model, Params, import_options
from relay_int8.cli.options import (
    Batch,
    BiasCorrection,
    Exclude,
    Method,
    OptionalData,
    Preprocess,
    Preset,
    RequantizeName,
    RoundingName,
    Table,
    chosen_requantize,
    chosen_source,
)
from relay_int8.cli.preprocess import named_preprocessing
from relay_int8.cli.progress import progress_report
from relay_int8.files import require_outputs
from relay_int8.graph.pixels import PixelLayout
from relay_int8.quantization.config import QuantConfig, chosen_tools
from relay_int8.report.summary import print_summary
from relay_int8.report.terminal import terminal

Output = Annotated[
    Path, typer.Option("--output", "-o", help="Artifact to write; by custom NAME.ri8.")
]
RawPixels = Annotated[
    str | None,
    typer.Option(
        help="Make an artifact that takes raw uint8 pictures, nchw or nhwc, and prepares them "
        "itself; needs --preprocess."
    ),
]
Target = Annotated[
    str,
    typer.Option(
        help="Where it will run: native, x86-vnni, x86-avx2, x86, aarch64, cuda, or a TVM "
        "target as JSON. The integers are the same everywhere."
    ),
]
Architectures = Annotated[
    str,
    typer.Option(
        help="For GPUs, whose code the artifact holds: native (those of this computer), all, "
        "or names as in sm_80,sm_90. Kernels are chosen for the oldest; newer ones get PTX."
    ),
]
CudaGraphs = Annotated[
    bool,
    typer.Option("--cuda-graphs/--no-cuda-graphs", help="For GPUs: launch kernels together."),
]
Float16 = Annotated[
    bool,
    typer.Option(
        "--float16", help="For GPUs: layers that stay in float multiply float16, sum float32."
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(help="Plan file, as sensitivity writes it: what it leaves in float stays."),
]
ToolSettings = Annotated[
    list[str] | None,
    typer.Option(help="Setting of an accuracy tool, as equalization=smooth; may be repeated."),
]
RequireInt8 = Annotated[
    bool,
    typer.Option(
        "--require-int8", help="Exit with 3 if a layer that is not excluded stays in float."
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail if calibration images are blank: a tensor with one value on all of them, with "
        "values that are not finite, or without a range.",
    ),
]
MaxBatch = Annotated[
    int | None,
    typer.Option(min=2, help="Make one artifact for every batch from 1 to this."),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(help="Where to write the full report, as JSON; as a page if it is named *.html."),
]
Samples = Annotated[
    int,
    typer.Option(min=0, help="Images to compare each layer with FP32 on; 0 leaves it out."),
]
SensitivitySamples = Annotated[
    int,
    typer.Option(min=0, help="Images to measure each layer's sensitivity on, for the report."),
]
TuningLogs = Annotated[
    Path | None,
    typer.Option(help="Folder of tuning logs, used before those that are shipped; see tune."),
]
UseRecords = Annotated[
    bool,
    typer.Option("--records/--no-records", help="Use tuning logs, or default schedules alone."),
]
RequireTuned = Annotated[
    bool,
    typer.Option("--require-tuned", help="Fail if a kernel has no record in any log."),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads that it will run on; all cores if not given."),
]
QdqFile = Annotated[Path | None, typer.Option(help="Where to write the network as QDQ ONNX too.")]
TableFile = Annotated[
    Path | None, typer.Option(help="Where to write the calibration table, as JSON.")
]


def quantize(
    model: Model,
    output: Output,
    data: OptionalData = None,
    table: Table = None,
    preprocess: Preprocess = None,
    pixels: RawPixels = None,
    target: Target = "native",
    arch: Architectures = "",
    cuda_graphs: CudaGraphs = True,
    float16: Float16 = False,
    preset: Preset = QuantConfig.preset,
    method: Method = QuantConfig.method,
    exclude: Exclude = None,
    plan: PlanFile = None,
    tool: ToolSettings = None,
    bias_correction: BiasCorrection = True,
    requantize: RequantizeName = "float",
    rounding: RoundingName = None,
    require_int8: RequireInt8 = False,
    strict: Strict = False,
    batch: Batch = None,
    max_batch: MaxBatch = None,
    inputs: Inputs = None,
    params: Params = None,
    report: ReportFile = None,
    samples: Samples = 8,
    sensitivity: SensitivitySamples = 0,
    tuning_logs: TuningLogs = None,
    records: UseRecords = True,
    require_tuned: RequireTuned = False,
    threads: Threads = None,
    qdq: QdqFile = None,
    save_table: TableFile = None,
) -> None:
    """Quantize a model to int8 and compile it for a target.

    A model that is quantized already keeps its scales and needs neither --data nor --table.

    For example: relay-int8 quantize resnet50.onnx --data images/ --preprocess imagenet -o
    resnet50.ri8 --report report.json
    """
    written = (output, report, save_table, qdq)
    require_outputs(*written, read=(model, data, table, plan, params))
    source = chosen_source(data, table, method)
    config = QuantConfig(
        preset=preset,
        method=method,
        exclude=tuple(exclude or ()),
        bias_correction=bias_correction,
        tools=chosen_tools(preset, tool or ()),
        requantize=chosen_requantize(requantize, rounding),
        require_int8=require_int8,
    )
    recipe = named_preprocessing(preprocess)
    options = relay_int8.BuildOptions(
        target=target,
        arch=arch,
        cuda_graphs=cuda_graphs,
        float16=float16,
        max_batch=max_batch,
        pixels=_pixel_layout(pixels),
        threads=threads,
        tuning_logs=tuning_logs,
        records=records,
        require_tuned=require_tuned,
    )
    console = terminal()
    console.print(f"{model} -> {output}", soft_wrap=True)
    _print_resolved(
        console, config, table, plan, f"{target}, {arch}" if arch else target, preprocess
    )
    with progress_report() as progress:
        result = relay_int8.compile_model(
            model,
            source,
            output,
            imports=import_options(batch, inputs, params),
            config=config,
            options=options,
            preprocessing=recipe,
            plan=plan,
            samples=samples,
            sensitivity=sensitivity,
            report=report,
            save_table=save_table,
            qdq=qdq,
            strict=strict,
            progress=progress,
        )
    print_summary(result, console, exported=qdq is not None)


def _print_resolved(
    console: Console,
    config: QuantConfig,
    table: Path | None,
    plan: Path | None,
    target: str,
    preprocess: str | None,
) -> None:
    floats = [*config.exclude, *([f"those of {plan}"] if plan else [])]
    resolved = {
        "preset": config.preset,
        "method": config.method if table is None else f"table {table}",
        "requantize": config.requantize_text,
        "target": target,
        "in float": ", ".join(floats) or "nothing",
        "images": "as given" if preprocess is None else f"prepared ({preprocess})",
    }
    console.print("; ".join(f"{key}: {value}" for key, value in resolved.items()), soft_wrap=True)


def _pixel_layout(name: str | None) -> PixelLayout | None:
    layouts: dict[str | None, PixelLayout | None] = {None: None, "nchw": "NCHW", "nhwc": "NHWC"}
    if name not in layouts:
        raise typer.BadParameter(f"--pixels {name}: nchw or nhwc is expected")
    return layouts[name]
