"""Give a model the types of its tensors, where ONNX infers them."""

from __future__ import annotations

import onnx
from onnx import shape_inference


def typed(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with the types of what its nodes give, as far as they are known.

    The model itself where ONNX infers none: ONNX 1.23 does not where a call leaves results of a
    function out, nor in a model of more than 2 GiB or with faulty nodes.
    """
    try:
        return shape_inference.infer_shapes(model)
    except (RuntimeError, ValueError, shape_inference.InferenceError):
        return model
