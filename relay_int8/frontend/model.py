"""Import a model file; the ending of its name tells the format."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from relay_int8.errors import FrontendError
from relay_int8.file_names import instead_of_model
from relay_int8.frontend.options import ImportOptions

if TYPE_CHECKING:
    from tvm import IRModule

FORMATS = {".json": "mxnet", ".onnx": "onnx", ".pt2": "torch", ".tflite": "tflite"}
"""Ending of a file's name -> module of this package with ``import_file(path, options)``."""


def import_model(source: str | Path, options: ImportOptions) -> IRModule:
    """Return the Relax module of a model file.

    Raises
    ------
    ConfigError
        An option says what files of this format say themselves.
    FrontendError
        The file cannot be read.
    UnsupportedOpError
        Operators that cannot be imported.
    """
    path = Path(source)
    if advice := instead_of_model(path):
        raise FrontendError(advice)
    reader = import_module(f"relay_int8.frontend.{FORMATS.get(path.suffix.lower(), 'onnx')}")
    mod: IRModule = reader.import_file(path, options)
    _refuse_empty_outputs(mod)
    return mod


def _refuse_empty_outputs(mod: IRModule) -> None:
    """Refuse no outputs, and those without elements, which no kernel can compute; FrontendError."""
    from relay_int8.frontend.importing import cut_option
    from relay_int8.graph.dataflow import results, shape

    outputs = results(mod["main"])
    if not outputs:
        raise FrontendError(f"the model has no outputs; name those to compute: {cut_option(())}")
    for var in outputs:
        if 0 in shape(var):
            kept = [str(other.name) for other in outputs if 0 not in shape(other)]
            raise FrontendError(
                f"output {var.name} is {' x '.join(map(str, shape(var)))} and has no elements; "
                f"name the outputs to keep: {cut_option(kept)}"
            )


def model_bytes(source: str | Path, params: str | Path | None = None) -> int:
    """Return the size of a model's file, and of its weights' where they are in another one."""
    files = [Path(source)]
    if FORMATS.get(files[0].suffix.lower()) == "mxnet":
        from relay_int8.frontend.mxnet import params_beside

        files.append(params_beside(files[0]) if params is None else Path(params))
    return sum(file.stat().st_size for file in files)
