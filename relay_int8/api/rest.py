"""The part of a model behind a cut, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx

from relay_int8.argument_types import checked
from relay_int8.files import require_outputs, write_atomic
from relay_int8.frontend.onnx.file import read_model
from relay_int8.frontend.onnx.rest import rest_of


@checked
def export_rest(model: str | Path, outputs: Sequence[str], output: str | Path) -> onnx.ModelProto:
    """Write what an ONNX model computes behind a cut as an ONNX file, and return it.

    Parameters
    ----------
    model
        ONNX file.
    outputs
        Tensors at which it is cut: those of ``ImportOptions(outputs=...)``. They are inputs of what
        is written, with the inputs of the model that it reads as well.
    output
        ONNX file to write.

    Raises
    ------
    ConfigError
        There are no such tensors, or no output of the model lies behind them.
    FrontendError
        The file is no ONNX model, or the type of a tensor cannot be inferred.

    Examples
    --------
    >>> rest = relay_int8.export_rest("digits.onnx", ["flatten"], "rest.onnx")
    >>> [value.name for value in rest.graph.input]
    ['flatten']
    """
    require_outputs(output, read=(model,))
    rest = rest_of(read_model(Path(model)), outputs)
    write_atomic(Path(output), rest.SerializeToString())
    return rest
