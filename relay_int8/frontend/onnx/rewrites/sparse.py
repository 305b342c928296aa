"""Read constants that a file stores as sparse tensors as the dense ones that they stand for."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import numpy_helper

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx.nested import attributes_of, graphs_of

MOST_ELEMENTS = 1 << 28
"""Of a tensor that is made dense: 1 GB of float32; a damaged file says any number."""


def make_dense(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` without sparse tensors; the model itself if it has none.

    Raises
    ------
    FrontendError
        If a sparse tensor says an element that it does not have.
    """
    if not any(graph.sparse_initializer for graph in graphs_of(model)) and not any(
        attribute.HasField("sparse_tensor") for attribute in attributes_of(model)
    ):
        return model
    dense = onnx.ModelProto()
    dense.CopyFrom(model)
    for graph in graphs_of(dense):
        graph.initializer.extend(_dense(tensor) for tensor in graph.sparse_initializer)
        del graph.sparse_initializer[:]
    for attribute in attributes_of(dense):
        if attribute.HasField("sparse_tensor"):
            tensor = _dense(attribute.sparse_tensor)
            attribute.ClearField("sparse_tensor")
            attribute.t.CopyFrom(tensor)
            attribute.name, attribute.type = "value", onnx.AttributeProto.TENSOR
    return dense


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Return the dense tensor; indices count through all elements, or are coordinates."""
    name, dims = sparse.values.name, tuple(sparse.dims)
    if min(dims, default=0) < 1 or math.prod(dims) > MOST_ELEMENTS:
        raise FrontendError(f"sparse tensor {name} would be {list(dims)}; the file is damaged")
    try:
        values, indices = (numpy_helper.to_array(t) for t in (sparse.values, sparse.indices))
        if indices.ndim == 2:
            indices = np.ravel_multi_index(tuple(indices.T), dims)
        flat = np.zeros(math.prod(dims), values.dtype)
        flat[indices] = values
    except (IndexError, TypeError, ValueError, KeyError) as err:
        raise FrontendError(f"sparse tensor {name} of the file cannot be read: {err}") from err
    return numpy_helper.from_array(flat.reshape(dims), name)
