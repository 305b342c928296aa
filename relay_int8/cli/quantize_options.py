"""Options of ``quantize`` alone, in their groups."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8.cli.options import INTEGERS, MAX_THREADS
from relay_int8.cli.words import PIXELS, TARGETS, TOOLS, among

TARGET = "For the target"
FILES = "Report and files"

Output = Annotated[
    Path, typer.Option("--output", "-o", help="Artifact to write, usually NAME.ri8.")
]
RawPixels = Annotated[
    str | None,
    typer.Option(
        help="Make an artifact that takes raw uint8 pictures, nchw or nhwc, and prepares them "
        "itself; needs --preprocess.",
        autocompletion=among(PIXELS),
        rich_help_panel=TARGET,
    ),
]
Target = Annotated[
    str,
    typer.Option(
        help="Where it will run: native, x86-vnni, x86-avx2, x86, aarch64, cuda, or a TVM "
        "target as JSON. The integers are the same everywhere.",
        autocompletion=among(TARGETS),
    ),
]
Architectures = Annotated[
    str,
    typer.Option(
        help="For GPUs: the architectures to include code for: native (the GPUs of this computer), "
        "all, or names such as sm_80,sm_90. Kernels are chosen for the oldest of them.",
        rich_help_panel=TARGET,
    ),
]
CudaGraphs = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs/--no-cuda-graphs",
        help="For GPUs: launch kernels together, as CUDA graphs.",
        rich_help_panel=TARGET,
    ),
]
Float16 = Annotated[
    bool,
    typer.Option(
        "--float16",
        help="For GPUs: layers that stay in float multiply float16 numbers and sum in float32.",
        rich_help_panel=TARGET,
    ),
]
Compact = Annotated[
    bool,
    typer.Option(
        "--compact",
        help="For CPUs: weights take no more memory than they must; 3x3 convolutions take longer.",
        rich_help_panel=TARGET,
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        help="Plan file of the command sensitivity; layers that it leaves in float stay in float.",
        rich_help_panel=INTEGERS,
    ),
]
ToolSettings = Annotated[
    list[str] | None,
    typer.Option(
        help="Setting of an accuracy tool, such as equalization=smooth; may be repeated.",
        autocompletion=among(TOOLS),
        rich_help_panel=INTEGERS,
    ),
]
SearchSeconds = Annotated[
    float | None,
    typer.Option(
        help="Seconds after which --preset auto takes the best that it has tried so far.",
        rich_help_panel=INTEGERS,
    ),
]
RequireInt8 = Annotated[
    bool,
    typer.Option(
        "--require-int8",
        help="Exit with 3 if a layer that is not excluded stays in float.",
        rich_help_panel=INTEGERS,
    ),
]
RequireProducts = Annotated[
    bool,
    typer.Option(
        "--require-int8-products",
        help="The same for layers that multiply and sum alone: norms and others may stay in float.",
        rich_help_panel=INTEGERS,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Fail if calibration images are blank: a tensor with one value on all of them, with "
        "values that are not finite, or without a range.",
        rich_help_panel=INTEGERS,
    ),
]
MaxBatch = Annotated[
    int | None,
    typer.Option(
        min=2, help="Make one artifact for every batch from 1 to this.", rich_help_panel=TARGET
    ),
]
ReportFile = Annotated[
    Path | None,
    typer.Option(help="Where to write the full report, as JSON; as a page if it is named *.html."),
]
Samples = Annotated[
    int,
    typer.Option(
        min=0,
        help="Images to compare each layer with FP32 on; 0 leaves it out.",
        rich_help_panel=FILES,
    ),
]
SensitivitySamples = Annotated[
    int,
    typer.Option(
        min=0,
        help="Images to measure each layer's sensitivity on, for the report.",
        rich_help_panel=FILES,
    ),
]
TuningLogs = Annotated[
    Path | None,
    typer.Option(
        help="Folder of tuning logs, used before those that come with relay-int8; see tune.",
        rich_help_panel=TARGET,
    ),
]
UseRecords = Annotated[
    bool,
    typer.Option(
        "--records/--no-records",
        help="Use tuning logs, or only default schedules.",
        rich_help_panel=TARGET,
    ),
]
RequireTuned = Annotated[
    bool,
    typer.Option(
        "--require-tuned", help="Fail if a kernel has no record in any log.", rich_help_panel=TARGET
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=MAX_THREADS,
        help="Threads that the network will run on; all cores if not given.",
    ),
]
QdqFile = Annotated[
    Path | None,
    typer.Option(help="Where to write the network as QDQ ONNX too.", rich_help_panel=FILES),
]
TableFile = Annotated[
    Path | None,
    typer.Option(help="Where to write the calibration table, as JSON.", rich_help_panel=FILES),
]
