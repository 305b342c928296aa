"""``relay-int8 quantize``: a model and images in, an artifact out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from relay_int8.cli.demand import Accuracy, DemandLabels, EvalData, MaxDrop, MetricName, MinSnr
from relay_int8.cli.exits import telling_what_is_written
from relay_int8.cli.model import Cut, Inputs, Model, Params, import_options
from relay_int8.cli.options import (
    AsJson,
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
from relay_int8.cli.quantize_options import (
    Architectures,
    Compact,
    CudaGraphs,
    Float16,
    MaxBatch,
    Output,
    PlanFile,
    QdqFile,
    RawPixels,
    ReportFile,
    RequireInt8,
    RequireProducts,
    RequireTuned,
    Samples,
    SearchSeconds,
    SensitivitySamples,
    Strict,
    TableFile,
    Target,
    Threads,
    ToolSettings,
    TuningLogs,
    UseRecords,
)
from relay_int8.cli.words import AUTO, METHOD, PRESET
from relay_int8.files import require_outputs

if TYPE_CHECKING:
    from rich.console import Console

    from relay_int8 import Demand, QuantConfig


def quantize(
    model: Model,
    output: Output,
    data: OptionalData = None,
    preprocess: Preprocess = None,
    batch: Batch = None,
    target: Target = "native",
    threads: Threads = None,
    report: ReportFile = None,
    preset: Preset = PRESET,
    budget: SearchSeconds = None,
    method: Method = METHOD,
    table: Table = None,
    exclude: Exclude = None,
    plan: PlanFile = None,
    tool: ToolSettings = None,
    bias_correction: BiasCorrection = True,
    requantize: RequantizeName = "float",
    rounding: RoundingName = None,
    require_int8: RequireInt8 = False,
    require_products: RequireProducts = False,
    strict: Strict = False,
    metric: MetricName = None,
    max_drop: MaxDrop = None,
    min_snr: MinSnr = None,
    labels: DemandLabels = None,
    eval_data: EvalData = None,
    inputs: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    pixels: RawPixels = None,
    max_batch: MaxBatch = None,
    tuning_logs: TuningLogs = None,
    records: UseRecords = True,
    require_tuned: RequireTuned = False,
    arch: Architectures = "",
    cuda_graphs: CudaGraphs = True,
    float16: Float16 = False,
    compact: Compact = False,
    samples: Samples = 8,
    sensitivity: SensitivitySamples = 0,
    save_table: TableFile = None,
    qdq: QdqFile = None,
    as_json: AsJson = False,
) -> None:
    """Quantize a model to int8 and compile it for a target.

    A model that is quantized already keeps its scales and needs neither --data nor --table.

    For example: relay-int8 quantize resnet50.onnx --data images/ --preprocess imagenet -o
    resnet50.ri8 --report report.json
    """
    layout = _pixel_layout(pixels)
    sums = chosen_requantize(requantize, rounding)
    accuracy = Accuracy(
        max_drop=max_drop,
        min_snr=min_snr,
        metric=metric,
        labels=labels,
        eval_data=eval_data,
        data=data,
        is_auto=preset == AUTO,
    )
    accuracy.check()
    written = (output, report, save_table, qdq)
    require_outputs(*written, read=(model, data, table, plan, params, labels, eval_data))
    source = chosen_source(data, table, method)
    # Here, not above: help and usage errors must not wait for NumPy and TVM.
    import relay_int8

    config = relay_int8.QuantConfig(
        preset=preset,
        method=method,
        exclude=tuple(exclude or ()),
        bias_correction=bias_correction,
        requantize=sums,
        require_int8=require_int8 or (require_products and "products"),
        budget=budget,
    ).with_settings(tool or ())
    from relay_int8.cli.preprocess import named_preprocessing
    from relay_int8.cli.progress import progress_report
    from relay_int8.cli.summary import print_summary
    from relay_int8.cli.terminal import terminal

    recipe = named_preprocessing(preprocess)
    options = relay_int8.BuildOptions(
        target=target,
        arch=arch,
        cuda_graphs=cuda_graphs,
        float16=float16,
        compact=compact,
        max_batch=max_batch,
        pixels=layout,
        threads=threads,
        tuning_logs=tuning_logs,
        records=records,
        require_tuned=require_tuned,
    )
    classes = accuracy.read_labels()
    demand = accuracy.demand(classes)
    searches_by_metric = metric is not None and preset == AUTO
    console = terminal(error=as_json)
    console.print(f"{model} -> {output}", soft_wrap=True)
    _print_resolved(
        console,
        config,
        table,
        plan,
        f"{target}, {arch}" if arch else target,
        preprocess,
        metric,
        demand,
    )
    with telling_what_is_written(*written), progress_report() as progress:
        result = relay_int8.compile_model(
            model,
            source,
            output,
            imports=import_options(batch, inputs, params, cut),
            config=config,
            options=options,
            preprocessing=recipe,
            plan=plan,
            metric=metric if searches_by_metric else None,
            labels=classes if searches_by_metric else None,
            demand=demand,
            samples=samples,
            sensitivity=sensitivity,
            report=report,
            save_table=save_table,
            qdq=qdq,
            strict=strict,
            progress=progress,
        )
    if as_json:
        typer.echo(result.to_json(), nl=False)
    else:
        print_summary(result, console)


def _print_resolved(
    console: Console,
    config: QuantConfig,
    table: Path | None,
    plan: Path | None,
    target: str,
    preprocess: str | None,
    metric: str | None,
    demand: Demand | None,
) -> None:
    floats = [*config.exclude, *([f"those of {plan}"] if plan else [])]
    resolved = {
        "preset": config.preset,
        **({"budget": f"{config.budget:g} s"} if config.budget else {}),
        "method": config.method if table is None else f"table {table}",
        "requantize": config.requantize_text,
        "target": target,
        "in float": ", ".join(floats) or "nothing",
        **({} if metric is None else {"metric": metric}),
        **({} if demand is None else {"demanded": str(demand)}),
        "images": "as given" if preprocess is None else f"prepared ({preprocess})",
    }
    console.print("; ".join(f"{key}: {value}" for key, value in resolved.items()), soft_wrap=True)


def _pixel_layout(name: str | None) -> Literal["NCHW", "NHWC"] | None:
    layouts: dict[str | None, Literal["NCHW", "NHWC"] | None] = {
        None: None,
        "nchw": "NCHW",
        "nhwc": "NHWC",
    }
    if name not in layouts:
        raise typer.BadParameter(f"--pixels {name}: nchw or nhwc is expected")
    return layouts[name]
