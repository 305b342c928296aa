"""Import a TFLite model into Relax; TensorFlow and its runtime are not needed.

What comes out is as the ONNX importer's: ``main`` with one dataflow block, constants for weights,
and every tensor under its name in the file (of the several that a fused tensor may have, the
first). Inputs and results keep the file's order, NHWC for images, and its types; between them
images are NCHW. A model that is quantized has Q/DQ pairs with the file's scales and zero points.
"""

from __future__ import annotations

from pathlib import Path

from tvm import IRModule

from relay_int8.frontend.importing import check_batch
from relay_int8.frontend.options import ImportOptions, refuse_options
from relay_int8.frontend.tflite.file import read_model
from relay_int8.frontend.tflite.graph import TfliteImporter
from relay_int8.frontend.weights import check_finite


def import_file(path: Path, options: ImportOptions) -> IRModule:
    """Import a TFLite file as ``frontend.model`` wants it."""
    refuse_options(path, options)
    return import_tflite(path, batch=options.batch)


def import_tflite(source: str | Path, *, batch: int | None = None) -> IRModule:
    """Return the Relax module of a TFLite file.

    Parameters
    ----------
    source
        The file.
    batch
        Leading extent of every input, in place of the file's.

    Raises
    ------
    FrontendError
        The file is damaged, or its parts do not fit together.
    UnsupportedOpError
        Operators, types or encodings that cannot be imported.
    """
    check_batch(batch)
    return check_finite(TfliteImporter(read_model(Path(source)), batch).run())
