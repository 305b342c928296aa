"""TFLite's Fourier transform, and operators that make real numbers of its complex ones.

A complex tensor is two real ones, so that the one that nothing reads is not computed: networks of
sound that cast a spectrum to float read real parts alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.fourier import transform_weights
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Parts, Result
from relay_int8.graph.dataflow import shape


def _transform(step: TfliteStep) -> Result:
    """Transform rows of real numbers by two products with constant weights."""
    rows, length = step.integers(1, "length")
    x = step.plain(0)
    *outer, height, width = shape(x)
    if rows != 1 or height != 1 or length < 1:
        raise NotImplementedError(
            f"a transform of {rows} rows of {length} values, of {height} rows of {width}; "
            "transforms of single rows are read"
        )
    if width > length:
        x = step.emit("cut", relax.op.strided_slice(x, [len(outer) + 1], [0], [length]))
    given, count = min(width, length), length // 2 + 1  # zeros follow the values
    weights = transform_weights(length, count, 1, inverse=False)[:given]
    real, imaginary = (np.ascontiguousarray(weights[:, part::2]) for part in (0, 1))
    return Parts(
        relax.op.matmul(x, relax.const(real)),
        relax.op.matmul(x, relax.const(imaginary)),
    )


def _real(step: TfliteStep) -> Result:
    return step.part(0).real


def _imaginary(step: TfliteStep) -> Result:
    return step.part(0).imaginary


def _magnitude(step: TfliteStep) -> Result:
    parts = step.part(0)
    squares = [
        step.emit(name, relax.op.multiply(part, part))
        for name, part in (("real", parts.real), ("imaginary", parts.imaginary))
    ]
    return relax.op.sqrt(step.emit("power", relax.op.add(*squares)))


SPECTRA: dict[str, Converter] = {
    "COMPLEX_ABS": _magnitude,
    "IMAG": _imaginary,
    "REAL": _real,
    "RFFT2D": _transform,
}
OF_PARTS = (*SPECTRA, "CAST")
"""Operators that read complex tensors; a cast to reals drops the imaginary part."""
MOVED = (
    "EXPAND_DIMS", "GATHER", "RESHAPE", "REVERSE_V2", "SLICE", "SQUEEZE", "STRIDED_SLICE",
    "TRANSPOSE",
)  # fmt: skip
"""Operators that move the parts of a complex tensor alike."""


def converted_by_parts(convert: Converter, step: TfliteStep) -> Result | Sequence[Result]:
    """Return what an operator makes of its operands: moved complex ones are moved part by part."""
    if not step.is_complex or step.operator.kind in OF_PARTS:
        return convert(step)
    if step.operator.kind not in MOVED:
        raise NotImplementedError("complex numbers")
    real, imaginary = convert(step), convert(step.of_imaginary)
    if not isinstance(real, relax.Expr) or not isinstance(imaginary, relax.Expr):
        raise NotImplementedError("complex images")
    return Parts(real, imaginary)
