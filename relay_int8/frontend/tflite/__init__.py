"""Import a TFLite model into Relax; TensorFlow and its runtime are not needed.

What comes out is as the ONNX importer's: ``main`` with one dataflow block, constants for weights,
and every tensor under its name in the file (of the several that a fused tensor may have, the
first). Inputs and results keep the file's order, NHWC for images, and its types; between them
images are NCHW. A model that is quantized has Q/DQ pairs with the file's scales and zero points.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tvm import IRModule

from relay_int8.argument_types import checked
from relay_int8.frontend.options import ImportOptions, Shapes, refuse_params, refuse_values
from relay_int8.frontend.tflite.file import read_model
from relay_int8.frontend.tflite.graph import TfliteImporter
from relay_int8.frontend.tflite.model import cut_at
from relay_int8.frontend.tflite.states import with_variables
from relay_int8.frontend.tflite.wide import with_reals
from relay_int8.frontend.weights import check_finite


def import_file(path: Path, options: ImportOptions) -> IRModule:
    """Import a TFLite file as ``frontend.model`` wants it."""
    refuse_params(path, options)
    refuse_values(path, options)
    return import_tflite(path, inputs=options.inputs, batch=options.batch, outputs=options.outputs)


@checked
def import_tflite(
    source: str | Path,
    *,
    inputs: Shapes | None = None,
    batch: int | None = None,
    outputs: Sequence[str] = (),
) -> IRModule:
    """Return the Relax module of a TFLite file.

    Parameters
    ----------
    source
        The file.
    inputs
        Name -> shape of inputs of which the file leaves more open than the batch.
    batch
        Leading extent of every input, in place of the file's.
    outputs
        Tensors that are the outputs, in place of those that the file names.

    Raises
    ------
    ConfigError
        ``inputs``, ``batch`` or ``outputs`` do not go with the file.
    FrontendError
        The file is damaged, its parts do not fit together, or an extent stays open.
    UnsupportedOpError
        Operators, types or encodings that cannot be imported.
    """
    model = with_variables(with_reals(cut_at(read_model(Path(source)), outputs)))
    return check_finite(TfliteImporter(model, inputs or {}, batch).run())
