"""CanonicalizeActivation: every bound is one relu or clip."""

from math import inf

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_activation import CanonicalizeActivation
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast


def test_two_bounds_are_one_clip(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                a = R.maximum(x, R.const(0.0))
                y = R.minimum(R.const(6.0), a)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                y = R.clip(x, R.prim_value(0.0), R.prim_value(6.0))
                R.output(y)
            return y

    expect_rewrite(CanonicalizeActivation(), Before, Expected)


def test_a_prelu_of_one_slope_is_a_leakyrelu(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 1, 3, 3), "float32")) -> R.Tensor((2, 1, 3, 3), "float32"):
            with R.dataflow():
                y = R.nn.prelu(x, R.const([0.25]))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 1, 3, 3), "float32")) -> R.Tensor((2, 1, 3, 3), "float32"):
            with R.dataflow():
                y = R.nn.leakyrelu(x, 0.25)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeActivation(), Before, Expected)


def clip(x, low, high):
    return relax.op.clip(x, relax.prim_value(low), relax.prim_value(high))


def at_least(x, low):
    return relax.op.maximum(x, relax.const(low, "float32"))


def at_most(x, high):
    return relax.op.minimum(x, relax.const(high, "float32"))


CHAINS = {
    "relu6 after a bound": (
        [lambda x: at_least(x, -9.0), nn.relu6],
        lambda x: clip(x, 0.0, 6.0),
    ),
    "clip from 0": ([lambda x: clip(x, 0.0, inf)], nn.relu),
    "clip from below": ([lambda x: clip(x, -1.0, inf)], lambda x: at_least(x, -1.0)),
    "clip from above": ([lambda x: clip(x, -inf, 3.0)], lambda x: at_most(x, 3.0)),
    "clip of nothing": ([lambda x: clip(x, -inf, inf)], lambda x: x),
    "relu twice": ([nn.relu, nn.relu], nn.relu),
    "relu after clip": ([lambda x: clip(x, -2.0, 3.0), nn.relu], lambda x: clip(x, 0.0, 3.0)),
    "bounds that exclude each other": (
        [lambda x: at_most(x, -1.0), lambda x: clip(x, 2.0, 3.0)],
        lambda x: clip(x, 2.0, 2.0),
    ),
    "three bounds": ([nn.relu, nn.relu6, lambda x: at_most(x, 2.0)], lambda x: clip(x, 0.0, 2.0)),
}


@pytest.mark.parametrize("case", CHAINS)
def test_a_chain_of_bounds_is_one(expect_rewrite, case):
    steps, wanted = CHAINS[case]
    net, other = NetworkWriter((2, 4)), NetworkWriter((2, 4))
    tensor = net.x
    for place, step in enumerate(steps):
        tensor = net.emit(f"step{place}", step(tensor))
    before = net.module(net.emit("y", relax.op.sqrt(tensor)))
    bounded = wanted(other.x)
    tensor = bounded if bounded is other.x else other.emit("bounded", bounded)
    expect_rewrite(
        CanonicalizeActivation(), before, other.module(other.emit("y", relax.op.sqrt(tensor)))
    )


KEPT = {
    "relu": nn.relu,
    "clip": lambda x: clip(x, -1.0, 6.0),
    "a bound for each channel": lambda x: relax.op.maximum(x, relax.const([0.0, 1.0, 2.0, 3.0])),
    "a bound that broadcasts": lambda x: relax.op.maximum(x, relax.const([[[0.0]]])),
    "two tensors": lambda x: relax.op.maximum(x, x),
    "slopes of channels": lambda x: nn.prelu(x, relax.const([0.1, 0.2, 0.3, 0.4])),
}


@pytest.mark.parametrize("case", KEPT)
def test_others_stay(expect_rewrite, case):
    net = NetworkWriter((2, 4))
    mod = net.module(net.emit("y", KEPT[case](net.x)))
    expect_rewrite(CanonicalizeActivation(), mod, mod)


def test_a_bound_that_others_read_is_not_merged(expect_rewrite):
    net = NetworkWriter((2, 4))
    r = net.relu("r", net.x)
    s = net.emit("s", clip(r, 1.0, 2.0))
    mod = net.module(net.emit("y", relax.op.add(r, s)))
    expect_rewrite(CanonicalizeActivation(), mod, mod)


def test_numbers_stay():
    net = NetworkWriter((3, 5))
    low = net.emit("low", at_least(net.x, -0.5))
    outputs = [net.emit("a", at_most(low, 0.75)), net.emit("b", nn.relu6(net.x))]
    outputs.append(net.emit("c", nn.prelu(net.x, relax.const([0.3]))))
    mod = net.module(*outputs)
    x = np.random.default_rng(0).normal(size=(3, 5), scale=5).astype("float32")
    for found, wanted in zip(
        run_relax(CanonicalizeActivation()(mod), x), run_relax(mod, x), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
