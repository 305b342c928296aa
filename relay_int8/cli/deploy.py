"""``relay-int8 deploy``: run an artifact on another device, and check it there."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relay_int8 import Address, Endpoint
from relay_int8.cli.model import Artifact
from relay_int8.cli.options import AsJson
from relay_int8.cli.serve import KEY_VARIABLE

if TYPE_CHECKING:
    from rich.console import Console

    from relay_int8 import Deployment, KernelCheck


def deploy(
    artifact: Artifact,
    rpc: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where relay-int8 serve, or a proxy, listens."),
    ] = None,
    tracker: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Tracker that knows the device.")
    ] = None,
    key: Annotated[str, typer.Option(envvar=KEY_VARIABLE, help="Key of the device.")] = "",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]FILE",
            help="A .npy file for an input; NAME is needed if there are several. Without it: "
            "random numbers.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Where to write the device's outputs: .npz or .npy."),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            help="Artifact of the same quantized model for this computer, to compare with; "
            "by default the artifact itself."
        ),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="How often a series of runs is timed.")] = 10,
    timeout: Annotated[
        float, typer.Option(min=1, max=86_400, help="Seconds to wait for an answer of the device.")
    ] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Upload an artifact to a device, run and time it there, and compare what comes out.

    The device runs relay-int8 serve. Nothing of the artifact is left on it.
    """
    if (rpc is None) == (tracker is None):
        raise typer.BadParameter("give either --rpc or --tracker")
    import relay_int8
    from relay_int8.cli.arrays import check_output, input_files, read_arrays, write_arrays
    from relay_int8.cli.terminal import terminal

    manifest = relay_int8.read_manifest(artifact)
    if output is not None:
        names = [info.name for info in manifest.outputs]
        check_output(output, names, [artifact, *input_files(inputs or ())])
    result = relay_int8.deploy(
        artifact,
        Endpoint(address=Address.parse(rpc or tracker or ""), tracker=tracker is not None, key=key),
        inputs=read_arrays(inputs, manifest.inputs[0].name) if inputs else None,
        reference=reference,
        repeats=repeats,
        timeout_s=timeout,
    )
    if output is not None:
        write_arrays(output, result.outputs)
    if as_json:
        typer.echo(_as_json(result), nl=False)
        return
    _print(result, f"{artifact} on {rpc or tracker}", terminal(), on_gpu=manifest.gpu is not None)


def _as_json(result: Deployment) -> str:
    """Return all of a deployment but the arrays."""
    from relay_int8 import finite_json

    values = {
        field.name: getattr(result, field.name)
        for field in fields(result)
        if field.name not in ("outputs", "device", "comparisons", "kernels")
    }
    compared = [asdict(each) for each in result.comparisons]
    kernels = asdict(result.kernels) if result.kernels else None
    return finite_json.dumps(
        {"device": asdict(result.device), "comparisons": compared, "kernels": kernels, **values}
    )


def _rounding(kernels: KernelCheck) -> str:
    """Say how kernels differ, none of which is wrong."""
    values = sum(each.different for each in kernels.differences)
    return (
        f"the outputs differ by float rounding alone: of {kernels.compared} kernels, each with the "
        f"inputs it has here, {len(kernels.differences)} round {values} floats otherwise; all "
        "others are equal, bit for bit"
    )


def _print(result: Deployment, title: str, console: Console, *, on_gpu: bool) -> None:
    import numpy as np

    from relay_int8.cli.terminal import show, table

    rows = table(console, "", "")
    rows.show_header = False
    device = result.device
    rows.add_row("device", f"{device.cpu}, {device.machine}, threads: {device.threads}")
    if on_gpu:
        rows.add_row("GPU", f"{device.gpus.devices[0]}, driver for CUDA {device.gpus.driver}")
    rows.add_row("library", "arrived unaltered (sha256)")
    for comparison in result.comparisons:
        same = f"all {comparison.elements} values equal, bit for bit"
        near = (
            f"{comparison.different} of {comparison.elements} values differ by up to "
            f"{comparison.largest:.3g}"
        )
        rows.add_row(f"output {comparison.name}", near if comparison.different else same)
    if result.kernels:
        rows.add_row("kernels", _rounding(result.kernels))
    rows.add_row("compared with", result.reference or "nothing: it does not run here; --reference")
    low, median, high = np.percentile(result.times_ms, (10, 50, 90))
    rows.add_row("time there", f"{median:.3f} ms ({low:.3f} to {high:.3f})")
    show(console, title, rows)
