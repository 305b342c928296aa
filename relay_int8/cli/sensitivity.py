"""``relay-int8 sensitivity``: what each layer's integers cost, and a plan that spares the worst."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8.cli.exits import telling_what_is_written, unmet
from relay_int8.cli.model import Cut, Inputs, Model, Params, import_options
from relay_int8.cli.options import AsJson, Data, Method, Preprocess, Preset
from relay_int8.cli.words import METHOD, PRESET

if TYPE_CHECKING:
    from rich.console import Console

    from relay_int8 import LayerAnalysis


def sensitivity(
    model: Model,
    data: Data,
    preprocess: Preprocess = None,
    preset: Preset = PRESET,
    method: Method = METHOD,
    samples: Annotated[int, typer.Option(min=1, help="Images to measure on.")] = 16,
    min_snr: Annotated[
        float | None,
        typer.Option(
            help="Find a plan with at least this signal-to-noise ratio against FP32, in dB."
        ),
    ] = None,
    min_agreement: Annotated[
        float | None,
        typer.Option(
            help="Find a plan with the same class as FP32 on at least this fraction of the images."
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option(help="Where to write the plan, for quantize --plan.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Where to write the sensitivities, as JSON.")
    ] = None,
    input_shape: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    as_json: AsJson = False,
) -> None:
    """Measure what each layer's integers cost in accuracy.

    With --min-snr or --min-agreement also find the layers to leave in float so that it is reached
    at the least time, as measured on this computer; conversions between float and integers count.
    """
    wanted = min_snr is not None or min_agreement is not None
    if plan is not None and not wanted:
        raise typer.BadParameter("--plan is written for --min-snr or --min-agreement")
    import relay_int8
    from relay_int8.cli.preprocess import named_preprocessing
    from relay_int8.cli.progress import progress_report
    from relay_int8.cli.terminal import terminal
    from relay_int8.files import require_outputs
    from relay_int8.report.wording import decibels

    budget = relay_int8.Budget(snr_db=min_snr, agreement=min_agreement) if wanted else None
    require_outputs(plan, report, read=(model, data, params))
    recipe = named_preprocessing(preprocess)
    imported = relay_int8.load_model(model, import_options(1, input_shape, params, cut))
    with telling_what_is_written(plan, report), progress_report() as progress:
        analysis = relay_int8.analyze_layers(
            imported,
            data,
            config=relay_int8.QuantConfig(preset=preset, method=method),
            budget=budget,
            preprocessing=recipe,
            samples=samples,
            progress=progress,
        )
    console = terminal()
    if as_json:
        typer.echo(analysis.to_json(), nl=False)
    else:
        _print_layers(analysis, console)
    if report is not None:
        analysis.save(report)
    verified = analysis.verified
    if verified is None:
        return
    if not as_json:
        _print_plan(analysis, console)
    if plan is not None:
        analysis.save_plan(plan)
    if not verified.holds:
        unmet(
            f"SNR {decibels(verified.fit.snr_db)} dB, agreement {verified.fit.agreement:.4f} is "
            "less than was asked for"
        )


def _print_layers(analysis: LayerAnalysis, console: Console) -> None:
    from relay_int8.cli.terminal import show, table
    from relay_int8.report.wording import decibels

    sensitivity = analysis.sensitivity
    numbers = ("MMAC", "alone dB", "without dB", "without, agreement")
    rows = table(console, "Layer", "Operator", *numbers, right=numbers)
    for layer in sorted(sensitivity.layers, key=lambda layer: -layer.without.snr_db):
        rows.add_row(
            layer.name,
            layer.kind,
            f"{layer.macs / 1e6:.2f}",
            decibels(layer.alone.snr_db),
            decibels(layer.without.snr_db),
            f"{layer.without.agreement:.4f}",
        )
    show(
        console,
        f"All in integers: {decibels(sensitivity.whole.snr_db)} dB, agreement "
        f"{sensitivity.whole.agreement:.4f} ({sensitivity.samples} images)",
        rows,
    )


def _print_plan(analysis: LayerAnalysis, console: Console) -> None:
    from relay_int8.cli.terminal import show, table
    from relay_int8.report.wording import decibels

    verified = analysis.verified
    assert verified is not None
    rows = table(console, "", "")
    rows.show_header = False
    rows.add_row("in float", ", ".join(verified.mixed.floats) or "nothing")
    rows.add_row("SNR", f"{decibels(verified.fit.snr_db)} dB")
    rows.add_row("agreement", f"{verified.fit.agreement:.4f}")
    rows.add_row("kernels, by their profiles", f"{verified.mixed.time_us / 1e3:.3f} ms")
    for name, latency_ms in verified.latency_ms.items():
        rows.add_row(f"latency {name}", f"{latency_ms:.3f} ms")
    console.print()
    show(console, "Plan", rows)
