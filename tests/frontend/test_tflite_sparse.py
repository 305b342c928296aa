"""Sparse weights of TFLite files equal the dense ones that TFLite's interpreter makes of them."""

import numpy as np
import pytest

from relay_int8.errors import FrontendError, UnsupportedOpError
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel, run_interpreter, schema

DENSE, COMPRESSED = 0, 1
VECTORS = {"uint8": "Uint8Vector", "uint16": "Uint16Vector", "int32": "Int32Vector"}


def weights(seed: int, *shape: int) -> np.ndarray:
    """Return random weights, of which a quarter is not zero."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) < 0.25)).astype("float32")


def vector(values: list[int], dtype: str):
    table = getattr(schema, f"{VECTORS[dtype]}T")()
    table.values = values
    return getattr(schema.SparseIndexVector, VECTORS[dtype]), table


def level(extent: int):
    return schema.DimensionMetadataT(format=DENSE, denseSize=extent)


def compressed(segments: list[int], indices: list[int], dtype: str):
    kinds = [vector(numbers, dtype) for numbers in (segments, indices)]
    return schema.DimensionMetadataT(
        format=COMPRESSED, arraySegmentsType=kinds[0][0], arraySegments=kinds[0][1],
        arrayIndicesType=kinds[1][0], arrayIndices=kinds[1][1],
    )  # fmt: skip


def rows(w: np.ndarray, dtype: str = "uint8"):
    """Return a matrix whose rows are compressed, and its elements."""
    places = [np.flatnonzero(row) for row in w]
    segments = np.cumsum([0, *(len(place) for place in places)]).tolist()
    indices = np.concatenate(places).tolist()
    levels = [level(len(w)), compressed(segments, indices, dtype)]
    sparsity = schema.SparsityParametersT(traversalOrder=[0, 1], dimMetadata=levels)
    return sparsity, w[w != 0]


def blocks(w: np.ndarray, block: int):
    """Return a matrix whose blocks of columns are compressed, and its elements."""
    count, columns = w.shape
    parts = w.reshape(count, columns // block, block)
    places = [np.flatnonzero(row.any(axis=1)) for row in parts]
    segments = np.cumsum([0, *(len(place) for place in places)]).tolist()
    indices = np.concatenate(places).tolist()
    levels = [level(count), compressed(segments, indices, "int32"), level(block)]
    sparsity = schema.SparsityParametersT(
        traversalOrder=[0, 1, 2], blockMap=[1], dimMetadata=levels
    )
    return sparsity, np.concatenate([row[place] for row, place in zip(parts, places, strict=True)])


def columns(w: np.ndarray):
    """Return a matrix in the order of its columns, which are compressed, and its elements."""
    sparsity, values = rows(w.T)
    sparsity.traversalOrder = [1, 0]
    return sparsity, values


def network(w: np.ndarray, sparsity, values: np.ndarray) -> TfliteModel:
    """Multiply by a matrix of float16, which is sparse in the file."""
    net = TfliteModel(1)
    x = net.input("x", (2, w.shape[1]))
    packed = net.tensor("w", w.shape, "float16", values.astype("float16"))
    net.graph.tensors[packed].sparsity = sparsity
    dense = net.op("DENSIFY", packed, options="DensifyOptions", dtype="float16")
    real = net.op("DEQUANTIZE", dense, options="DequantizeOptions")
    bias = net.weights(len(w), scale=0.1)
    return net.finish(net.op("FULLY_CONNECTED", x, real, bias, options="FullyConnectedOptions"))


@pytest.mark.parametrize(
    "form",
    [
        rows,
        lambda w: rows(w, "uint16"),
        lambda w: rows(w, "int32"),
        lambda w: blocks(w, 4),
        lambda w: blocks(w, 1),
        columns,
    ],
    ids=["bytes", "words", "integers", "blocks of four", "blocks of one", "columns"],
)
def test_sparse_weights(tmp_path, form):
    w = weights(2, 6, 12)
    net = network(w, *form(w))
    (x,) = net.inputs()
    found, *_ = run_fast(net.imported(tmp_path), x)
    np.testing.assert_allclose(found, run_interpreter(net, [x])[0], rtol=0, atol=1e-5)
    bias = np.asarray(net.model.buffers[-1].data, np.uint8).view("float32")
    expected = x @ w.astype("float16").astype("float32").T + bias
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.dimMetadata.pop(), r"1 levels in the order \[0, 1\] for 2 axes"),
        (lambda s: setattr(s, "traversalOrder", [0, 0]), r"in the order \[0, 0\] for 2 axes"),
        (lambda s: setattr(s.dimMetadata[0], "denseSize", 7), "a level of 7 positions, not 6"),
        (lambda s: s.dimMetadata[1].arraySegments.values.pop(), "do not fit 6 nodes above"),
        (lambda s: s.dimMetadata[1].arrayIndices.values.__setitem__(0, 12), "do not fit 6 nodes"),
        (lambda s: setattr(s.dimMetadata[1], "arrayIndicesType", 0), "indices of type 0"),
    ],
)
def test_levels_that_do_not_fit_are_refused(tmp_path, change, message):
    w = weights(2, 6, 12)
    net = network(w, *rows(w))
    change(net.graph.tensors[1].sparsity)
    with pytest.raises(FrontendError, match=f"sparse tensor w has .*{message}"):
        net.imported(tmp_path)


def test_elements_that_do_not_fit_are_refused(tmp_path):
    w = weights(2, 6, 12)
    sparsity, values = rows(w)
    net = network(w, sparsity, values)
    net.model.buffers[1].data = net.model.buffers[1].data[:-2]
    with pytest.raises(FrontendError, match=f"{len(values) - 1} elements for {len(values)} pos"):
        net.imported(tmp_path)


def test_dense_forms_of_what_is_computed_are_refused(tmp_path):
    w = weights(2, 6, 12)
    net = network(w, *rows(w))
    net.graph.operators[0].inputs = net.graph.inputs
    with pytest.raises(UnsupportedOpError, match="DENSIFY of x, which is no constant"):
        net.imported(tmp_path)
