"""The Q/DQ operators that PyTorch's PT2E quantization writes.

    quantize(x) = clamp(round(x / scale) + zero_point, quant_min, quant_max)

A range narrower than the type becomes a clip of the reals in front: its ends are multiples of the
scale, so that quantizing them gives them back.
"""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.file import DTYPES
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import constant, dtype, shape

TYPES = ("int8", "uint8", "int32")


def _kind(step: TorchStep) -> str:
    kind = DTYPES.get(step.integer("dtype"), "?")
    if kind not in TYPES:
        raise NotImplementedError(f"integers of type {kind}; there are {', '.join(TYPES)}")
    return kind


def _parameters(step: TorchStep, kind: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Return scale and zero point, of the tensor or of each channel, and the axis of channels."""
    by_channel = "scales" in step.arguments
    names = ("scales", "zero_points") if by_channel else ("scale", "zero_point")
    given = [step.arguments.get(name) for name in names]
    arrays = [constant(v) if isinstance(v, relax.Expr) else v for v in given]
    if by_channel and arrays[0] is not None and arrays[1] is None:
        arrays[1] = np.zeros(np.shape(arrays[0]))
    if any(array is None for array in arrays):
        raise NotImplementedError("its scale or zero point is computed, not constant")
    with np.errstate(over="ignore"):  # infinite ones are refused below
        scale: np.ndarray = np.asarray(arrays[0], np.float64).astype(np.float32)
    zero: np.ndarray = np.asarray(arrays[1], np.int64)
    axis = axis_of(step.integer("axis"), step.rank) if by_channel else 0
    wanted = (shape(step.x)[axis],) if by_channel else ()
    if not by_channel and scale.size == zero.size == 1:
        scale, zero = scale.reshape(()), zero.reshape(())
    info = np.iinfo(kind)
    if scale.shape != wanted or zero.shape != wanted:
        raise ValueError(f"{scale.shape} scales and {zero.shape} zero points, expected {wanted}")
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        raise ValueError("a scale is not positive")
    if zero.min() < info.min or zero.max() > info.max:
        raise ValueError(f"a zero point does not fit {kind}")
    return scale, zero.astype(kind), axis


def _quantize(step: TorchStep) -> Result:
    kind = _kind(step)
    scale, zero, axis = _parameters(step, kind)
    x, info = step.x, np.iinfo(kind)
    least, most = step.integer("quant_min"), step.integer("quant_max")
    if (least, most) != (info.min, info.max):
        if scale.size != 1:
            raise NotImplementedError(f"channels in {least} to {most} of {kind}")
        low, high = ((end - int(zero)) * float(scale) for end in (least, most))
        bounds = relax.prim_value(low), relax.prim_value(high)
        x = step.emit("clipped", relax.op.clip(x, *bounds))
    return relax.op.quantize(x, relax.const(scale), relax.const(zero), axis, kind)


def _dequantize(step: TorchStep) -> Result:
    kind = dtype(step.x)
    if kind not in TYPES:
        raise NotImplementedError(f"integers of type {kind}; there are {', '.join(TYPES)}")
    scale, zero, axis = _parameters(step, kind)
    return relax.op.dequantize(step.x, relax.const(scale), relax.const(zero), axis)


QUANTIZED: dict[str, Converter] = {
    "quantized_decomposed.dequantize_per_channel": _dequantize,
    "quantized_decomposed.dequantize_per_tensor": _dequantize,
    "quantized_decomposed.quantize_per_channel": _quantize,
    "quantized_decomposed.quantize_per_tensor": _quantize,
}
