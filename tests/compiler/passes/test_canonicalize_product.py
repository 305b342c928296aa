"""CanonicalizeProduct: weights stand on the right, or are groups of a convolution."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from relay_int8.compiler.passes.normalize.canonicalize_product import CanonicalizeProduct
from relay_int8.graph import dataflow
from relay_int8.graph.batch import with_batch
from relay_int8.graph.dataflow import FunctionWriter, constant
from relay_int8.graph.groups import find_groups
from tests.onnx_models import run_relax

pytestmark = pytest.mark.fast


def weights(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


def product(x_shape, w, *, left=False, bias=None):
    """Return a module of x @ w, or of w @ x with ``left``, plus a bias."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType(x_shape, "float32"))
    sides = (relax.const(w), x) if left else (x, relax.const(w))
    y = func.emit("y", relax.op.matmul(*sides))
    if bias is not None:
        y = func.emit("z", relax.op.add(y, relax.const(bias)))
    return func.finish([x], [y])


def operators(mod):
    return [dataflow.operator(value) for _, value in dataflow.calls(mod["main"])]


def assert_same(before, after, x_shape):
    x = np.random.default_rng(7).normal(size=x_shape).astype("float32")
    np.testing.assert_allclose(
        run_relax(after, x)[0], run_relax(before, x)[0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("x_shape", [(3, 6), (2, 5, 6)])
def test_a_product_with_a_vector_is_a_layer_of_one_output(x_shape):
    before = product(x_shape, weights(6))
    after = CanonicalizeProduct()(before)
    assert operators(after) == ["matmul", "reshape"]
    assert operators(before) == ["matmul"]
    assert_same(before, after, x_shape)
    (dense,) = (group for group in find_groups(after["main"]) if group.kind == "dense")
    assert dense.weight_rows.shape == (1, 6)


def test_weights_on_the_left_go_to_the_right_with_their_bias():
    before = product((2, 6, 5), weights(4, 6), left=True, bias=weights(4, 1))
    after = CanonicalizeProduct()(before)
    (matmul,) = (v for _, v in dataflow.calls(after["main"]) if dataflow.operator(v) == "matmul")
    assert constant(matmul.args[0]) is None
    np.testing.assert_array_equal(constant(matmul.args[1]), weights(4, 6).T)
    assert operators(after)[-1] == "permute_dims"  # behind the bias, which the layer adds
    assert_same(before, after, (2, 6, 5))


def test_a_matrix_for_each_head_is_a_group():
    before = product((2, 3, 5, 4), weights(3, 4, 6))
    after = CanonicalizeProduct()(before)
    (conv,) = (v for _, v in dataflow.calls(after["main"]) if dataflow.operator(v) == "nn.conv2d")
    assert conv.attrs.groups == 3
    assert constant(conv.args[1]).shape == (18, 4, 1, 1)
    assert_same(before, after, (2, 3, 5, 4))


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "groups"),
    [
        ((2, 3, 1, 5, 4), (3, 7, 4, 6), 3),
        ((2, 3, 1, 5, 4), (1, 3, 7, 4, 6), 3),
        ((2, 3, 8, 5, 4), (3, 1, 4, 6), 3),
        ((2, 1, 5, 4), (3, 4, 6), 1),
        ((2, 3, 2, 5, 4), (1, 3, 2, 4, 1), 6),
        ((2, 3, 5, 4), (2, 1, 4, 6), 2),
        ((3, 2, 1, 4), (3, 2, 4, 6), 6),
    ],
)
def test_matrices_that_broadcast_are_groups_and_outputs(x_shape, w_shape, groups):
    before = product(x_shape, weights(*w_shape))
    after = CanonicalizeProduct()(before)
    (conv,) = (v for _, v in dataflow.calls(after["main"]) if dataflow.operator(v) == "nn.conv2d")
    assert conv.attrs.groups == groups
    assert_same(before, after, x_shape)


def test_a_batch_among_the_rows_stays_a_batch():
    """As einsum("bixy,ioxy->boxy") has it: the modes of a Fourier neural operator."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType((1, 8, 4, 3), "float32"))
    turned = func.emit("turned", relax.op.permute_dims(x, [2, 3, 0, 1]))
    y = func.emit("y", relax.op.matmul(turned, relax.const(weights(4, 3, 8, 5))))
    mod = func.finish([x], [func.emit("z", relax.op.permute_dims(y, [2, 3, 0, 1]))])
    assert dataflow.shape(with_batch(CanonicalizeProduct()(mod), 6)["main"].body) == (6, 5, 4, 3)


def test_a_layer_stays():
    mod = product((2, 3, 5, 4), weights(4, 6))
    assert tvm_ffi.structural_equal(mod, CanonicalizeProduct()(mod), map_free_vars=True)


def test_the_module_stays_as_it_was():
    before = product((2, 6, 5), weights(4, 6), left=True)
    kept: tvm.IRModule = before.clone()
    CanonicalizeProduct()(before)
    assert tvm_ffi.structural_equal(before, kept, map_free_vars=True)


def shares(axes):
    """Return a module of v @ permute(softmax(x @ x), axes), as layers over images have it."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType((2, 5, 5, 5), "float32"))
    scores = func.emit("scores", relax.op.matmul(x, x))
    soft = func.emit("soft", relax.op.nn.softmax(scores, -1))
    turned = func.emit("turned", relax.op.permute_dims(soft, axes))
    v = func.emit("v", relax.op.add(x, x))
    return func.finish([x], [func.emit("y", relax.op.matmul(v, turned))])


def test_shares_of_keys_stand_on_the_left():
    """LeViT, EfficientViT and SHViT multiply values of channels by keys with turned shares."""
    before = shares([0, 1, 3, 2])
    after = CanonicalizeProduct()(before)
    assert_same(before, after, (2, 5, 5, 5))
    assert [group.kind for group in find_groups(after["main"])][1] == "attention"
    assert operators(after)[-2:] == ["matmul", "permute_dims"]


def test_shares_that_are_moved_otherwise_stay():
    before = shares([0, 2, 3, 1])
    assert operators(CanonicalizeProduct()(before)) == operators(before)


@pytest.mark.parametrize("dims", [(3, 5, 4), (2, 3, 5, 4)])
def test_weights_repeated_for_each_matrix_are_one_layer(dims):
    """PyTorch decomposes a linear layer of a turned tensor into a product with expanded weights."""
    w = np.ascontiguousarray(np.broadcast_to(weights(4, 6), (*dims[:-2], 4, 6)))
    before = product(dims, w)
    after = CanonicalizeProduct()(before)
    assert operators(after) == ["matmul"]
    ((_, value),) = dataflow.calls(after["main"])
    np.testing.assert_array_equal(constant(value.args[1]), weights(4, 6))
    assert_same(before, after, dims)
