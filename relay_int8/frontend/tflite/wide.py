"""Models with int16 activations ("16x8"), as the float models that they stand for.

    Before:  x: int16 with a scale;  y = CONV_2D(x, w: int8, b: int64): int16 with a scale
    After:   x: float32;  y = CONV_2D(x, reals of w, reals of b): float32

No kernel multiplies int16 activations here. Their 16 bits round so little that nothing is lost;
the network gets ranges by calibration, as any other. A tensor of int8 keeps its scale. A result
that is requantized to int32, as keyword spotting networks give it, is of reals too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from relay_int8.frontend.tflite.model import Quantization, TfliteGraph, TfliteModel, TfliteTensor
from relay_int8.frontend.tflite.tables import Array
from relay_int8.notices import notice

WIDE = ("int16", "int32")
OF_REALS = ("int16", "int64")
"""Types of quantized constants that become reals: operands of int16, and their biases."""


def with_reals(model: TfliteModel) -> TfliteModel:
    """Return a model whose int16 activations are reals; itself where there are none."""
    graph = model.graphs[0]
    wide = [tensor for each in model.graphs for tensor in each.tensors if _is_wide(tensor)]
    if not wide:
        return model
    kinds = " and ".join(sorted({tensor.dtype for tensor in wide}))
    taken = [graph.tensors[index] for index in graph.inputs]
    named = [tensor.name for tensor in taken if _is_wide(tensor)]
    ends = f"; its inputs {', '.join(named)} are reals, not integers" if named else ""
    notice(f"the model has {kinds} activations, and is read as the float model it stands for{ends}")
    return TfliteModel(tuple(_real_graph(each) for each in model.graphs))


def _is_wide(tensor: TfliteTensor) -> bool:
    """Whether a tensor is a computed one of wide integers; the memory of an LSTM is a state."""
    is_computed = tensor.values is None and not tensor.is_state
    return is_computed and tensor.dtype in WIDE and tensor.quantization is not None


def _real_graph(graph: TfliteGraph) -> TfliteGraph:
    return replace(graph, tensors=tuple(map(_real, graph.tensors)))


def _real(tensor: TfliteTensor) -> TfliteTensor:
    if tensor.quantization is None or not (_is_wide(tensor) or tensor.dtype in OF_REALS):
        return tensor
    values = None if tensor.values is None else _reals(tensor.values, tensor.quantization)
    return replace(tensor, dtype="float32", values=values, quantization=None)


def _reals(values: Array, quantization: Quantization) -> Array:
    along = [-1 if axis == quantization.axis else 1 for axis in range(values.ndim)]
    scale, zero = (
        p if p.size == 1 else p.reshape(along) for p in (quantization.scale, quantization.zero)
    )
    reals = (values.astype(np.float64) - zero) * scale
    return reals.astype(np.float32).reshape(values.shape)  # a scalar has become an array of one
