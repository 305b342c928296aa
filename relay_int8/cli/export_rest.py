"""``relay-int8 export-rest``: an ONNX model and a cut in, what lies behind the cut out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relay_int8.cli.model import known_file


def export_rest(
    model: Annotated[
        Path,
        typer.Argument(dir_okay=False, callback=known_file, help="ONNX file."),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")],
    cut: Annotated[
        list[str], typer.Option(help="Tensor at which the model is cut. May be repeated.")
    ],
) -> None:
    """Write what an ONNX model computes behind a cut, for another runtime.

    quantize --cut leaves out what lies behind these tensors, such as suppression of boxes. This
    command writes it as a model of its own, which reads the outputs of the artifact.

    For example: relay-int8 export-rest ssd.onnx --cut boxes --cut scores -o rest.onnx
    """
    import relay_int8
    from relay_int8.cli.terminal import terminal

    console = terminal()
    console.print(f"{model} -> {output}", soft_wrap=True)
    graph = relay_int8.export_rest(model, cut, output).graph
    reads, gives = (", ".join(value.name for value in v) for v in (graph.input, graph.output))
    console.print(f"{len(graph.node)} nodes; reads {reads}; gives {gives}", soft_wrap=True)
