"""CanonicalizeChannels: what a file computes with channels last is computed with channels first."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_channels import CanonicalizeChannels
from relay_int8.graph.dataflow import calls, operator
from tests.compiler.passes.float_islands import network, run

pytestmark = pytest.mark.fast

SHAPE = (1, 4, 6, 5)
PIXELS = np.arange(30, dtype="float32").reshape(6, 5, 1)


def test_arithmetic_of_channels_comes_to_stand_behind_the_convolution(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 2, 4, 5), "float32"), w: R.Tensor((2, 2, 1, 1), "float32")
        ) -> R.Tensor((1, 2, 4, 5), "float32"):
            with R.dataflow():
                c = R.nn.conv2d(x, w)
                t = R.permute_dims(c, (0, 2, 3, 1))
                m = R.multiply(t, R.const(np.array([2, 3], "float32")))
                a = R.add(m, R.const(1.0, "float32"))
                r = R.nn.relu(a)
                u = R.permute_dims(r, (0, 3, 1, 2))
                y = R.nn.conv2d(u, w)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((1, 2, 4, 5), "float32"), w: R.Tensor((2, 2, 1, 1), "float32")
        ) -> R.Tensor((1, 2, 4, 5), "float32"):
            with R.dataflow():
                c = R.nn.conv2d(x, w)
                m = R.multiply(c, R.const(np.array([[[[2]], [[3]]]], "float32")))
                a = R.add(m, R.const(1.0, "float32"))
                r = R.nn.relu(a)
                y = R.nn.conv2d(r, w)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeChannels(), Before, Expected)


def first(y: relax.Expr) -> relax.Expr:
    return op.permute_dims(y, (0, 3, 1, 2))


def of_last(step: Callable[[relax.Expr], relax.Expr]) -> tvm.IRModule:
    """Return a network of a step of an image with channels last."""
    return network(lambda x: step(op.permute_dims(x, (0, 2, 3, 1))), SHAPE)


def gated(y: relax.Expr) -> relax.Expr:
    return first(op.multiply(y, op.sigmoid(op.mean(y, [1, 2], keepdims=True))))


def gated_by_a_vector(y: relax.Expr) -> relax.Expr:
    """Multiply by numbers of the channels that have lost their axes of pixels."""
    return first(op.multiply(y, op.reshape(op.mean(y, [1, 2]), (1, 1, 1, 4))))


def quantized(y: relax.Expr) -> relax.Expr:
    parameters = relax.const(0.1, "float32"), relax.const(3, "uint8"), 3
    q = op.quantize(y, *parameters, "uint8")
    return first(op.dequantize(q, *parameters, "float32"))


STEPS = {
    "softmax": lambda y: first(op.nn.softmax(y, -1)),
    "pad": lambda y: first(op.nn.pad(y, [0, 0, 1, 2, 3, 4, 0, 0])),
    "slice": lambda y: first(op.strided_slice(y, [1, 3], [1, 0], [6, 4], [2, 3])),
    "a constant of pixels": lambda y: first(op.add(relax.const(PIXELS), y)),
    "concat": lambda y: first(op.concat([y, op.tanh(y)], axis=-1)),
    "largest channel": lambda y: op.max(y, [3]),
    "choice of a channel": lambda y: op.argmax(y, 3),
    "gate": gated,
    "gate of a vector": gated_by_a_vector,
    "mean of pixels": lambda y: op.mean(y, [1, 2]),
    "quantized": quantized,
}


@pytest.mark.parametrize("name", STEPS)
def test_no_permutation_is_left_and_the_result_is_the_same(name: str):
    before = of_last(STEPS[name])
    after = CanonicalizeChannels()(before)
    assert "permute_dims" not in [operator(value) for _, value in calls(after["main"])]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
    np.testing.assert_allclose(run(after, x), run(before, x), rtol=1e-6)


ONES = relax.const(np.ones(4, "float32"))
KEPT = {
    "a norm of channels": lambda y: first(op.nn.layer_norm(y, ONES, ONES, axes=[-1])),
    "an activation alone": op.nn.relu,
    "rows that are left": lambda y: op.mean(y, [2]),
    "tokens": lambda y: op.reshape(op.nn.relu(y), (1, 30, 4)),
    "another permutation": lambda y: op.permute_dims(op.nn.relu(y), (0, 2, 1, 3)),
}


@pytest.mark.parametrize("name", KEPT)
def test_where_as_many_permutations_would_be_left_nothing_changes(name: str):
    before = of_last(KEPT[name])
    tvm.ir.assert_structural_equal(CanonicalizeChannels()(before), before)
