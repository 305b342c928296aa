"""``relay-int8 inspect``: what an artifact is, or what would become of a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from relay_int8.cli.model import Cut, Inputs, Params, import_options, known_file
from relay_int8.cli.options import AsJson, Batch, Preset
from relay_int8.cli.words import PRESET

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from relay_int8 import Manifest

_BYTES = ("spilled_bytes", "stack_bytes", "shared_bytes")


def inspect(
    file: Annotated[
        Path,
        typer.Argument(dir_okay=False, callback=known_file, help="Artifact (.ri8), or a model."),
    ],
    preset: Preset = PRESET,
    batch: Batch = None,
    inputs: Inputs = None,
    cut: Cut = None,
    params: Params = None,
    as_json: AsJson = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            help="Also list rewrites that nearly applied to the model, and why they did not.",
        ),
    ] = False,
) -> None:
    """Show what an artifact takes, gives and needs; or which layers of a model become integers.

    An artifact is checked, not loaded: this works on a computer that cannot run it. A model needs
    no data here; what calibration may still find is the exception. Options are for models.
    """
    import relay_int8
    from relay_int8.cli.summary import print_declined, print_summary
    from relay_int8.cli.terminal import terminal
    from relay_int8.file_names import is_model

    if is_model(file):
        model = relay_int8.load_model(file, import_options(batch, inputs, params, cut))
        report = relay_int8.preview(model, preset=preset)
        if as_json:
            typer.echo(report.to_json(), nl=False)
        else:
            print_summary(report, terminal())
            if verbose:
                print_declined(report, terminal())
        return
    manifest = relay_int8.read_manifest(file)
    if as_json:
        typer.echo(manifest.to_json(), nl=False)
    else:
        _print_manifest(file, manifest)


def _print_manifest(file: Path, manifest: Manifest) -> None:
    from relay_int8.cli.terminal import show, table, terminal
    from relay_int8.messages import extents
    from relay_int8.report.wording import gpu_rows

    console = terminal()
    rows = table(console, "", "")
    rows.show_header = False
    for kind, infos in (("input", manifest.inputs), ("output", manifest.outputs)):
        for info in infos:
            rows.add_row(kind, f"{info.name}: {info.dtype} {extents(info.shape)}")
    rows.add_row("machine", manifest.machine)
    rows.add_row("CPU flags", ", ".join(manifest.cpu_flags) or "none in particular")
    rows.add_row("target", json.dumps(dict(manifest.target)))
    if manifest.weights:
        size = f"{manifest.weights[-1].end / 1e6:.2f} MB in {len(manifest.weights)} arrays"
        rows.add_row("weights", f"{size}, mapped from the file")
    rows.add_row("model digest", manifest.model_digest)
    for title, values in _sections(manifest):
        for key, value in values.items():
            rows.add_row(f"{title} {key}", json.dumps(value))
    for title, text in gpu_rows(manifest.gpu_code):
        rows.add_row(title, text)
    rows.add_row(
        "made with",
        f"relay-int8 {manifest.project_version}, apache-tvm {manifest.tvm_version}, "
        f"apache-tvm-ffi {manifest.tvm_ffi_version}",
    )
    show(console, str(file), rows)
    if manifest.gpu_code:
        console.print()
        show(console, "Kernels", _kernel_table(manifest.gpu_code, console))


def _kernel_table(gpu_code: Mapping[str, Any], console: Console) -> Table:
    from relay_int8.cli.terminal import table

    numbers = ("registers", "spilled", "stack", "shared", "a core", "waves")
    rows = table(console, "kernel", "on", *numbers, "computes", right=numbers)
    for name, kernel in gpu_code["kernels"].items():
        for architecture, use in kernel["usage"].items():
            values = (str(use[key]) for key in ("registers", *_BYTES))
            filling = (str(use.get("resident", "")), _waves(use.get("waves")))
            rows.add_row(name, architecture, *values, *filling, ", ".join(kernel["tensors"]))
    return rows


def _waves(waves: float | None) -> str:
    return "" if waves is None else f"{waves:.2f}"


def _sections(manifest: Manifest) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        ("preprocessing", manifest.preprocessing),
        ("settings", manifest.settings),
        ("coverage", manifest.coverage),
    ]
