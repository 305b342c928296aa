"""RemoveIdentity: operators that hand on what they get disappear."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.remove_identity import RemoveIdentity
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast
op = relax.op


def test_readers_of_the_last_read_the_first(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                a = R.reshape(x, (2, 3))
                b = R.multiply(a, R.const(1.0))
                c = R.permute_dims(b, [0, 1])
                y = R.nn.relu(c)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                y = R.nn.relu(x)
                R.output(y)
            return y

    expect_rewrite(RemoveIdentity(), Before, Expected)


def const(value, dims=()):
    return relax.const(np.full(dims, value, "float32"))


def sliced(x, step):
    begin, end = ([0], [6]) if step > 0 else ([5], [-7])
    return op.strided_slice(x, [2], begin, end, [step])


IDENTITIES = {
    "add": lambda x: op.add(const(0), x),
    "subtract": lambda x: op.subtract(x, const(0)),
    "multiply": lambda x: op.multiply(const(1, (1, 4, 1, 1)), x),
    "divide": lambda x: op.divide(x, const(1)),
    "where true": lambda x: op.where(relax.const(np.ones((2, 4, 6, 6), bool)), x, const(3)),
    "where false": lambda x: op.where(relax.const(np.zeros((1, 1), bool)), const(3), x),
    "concat": lambda x: op.concat([x], 1),
    "concat of nothing": lambda x: op.concat([x, const(0, (2, 0, 6, 6))], 1),
    "permute": lambda x: op.permute_dims(x, [0, 1, 2, 3]),
    "pad": lambda x: nn.pad(x, [0] * 8, "constant", 3.0),
    "slice": lambda x: sliced(x, 1),
    "tile": lambda x: op.tile(x, [1, 1, 1, 1]),
    "average pool": lambda x: nn.avg_pool2d(x, (1, 1)),
    "maximum pool": lambda x: nn.max_pool2d(x, (1, 1)),
    "reshape": lambda x: op.reshape(x, (2, 4, 6, 6)),
    "astype": lambda x: op.astype(x, "float32"),
    "broadcast": lambda x: op.broadcast_to(x, (2, 4, 6, 6)),
    "squeeze": lambda x: op.squeeze(x, []),
}


@pytest.mark.parametrize("case", IDENTITIES)
def test_identity_disappears(expect_rewrite, case):
    net, wanted = NetworkWriter((2, 4, 6, 6)), NetworkWriter((2, 4, 6, 6))
    before = net.module(net.relu("y", net.emit("i", IDENTITIES[case](net.x))))
    expect_rewrite(RemoveIdentity(), before, wanted.module(wanted.relu("y", wanted.x)))


def test_dropout_disappears(expect_rewrite):
    net, wanted = NetworkWriter((2, 4)), NetworkWriter((2, 4))
    dropped = net.emit("d", nn.dropout(net.x, 0.5))
    before = net.module(net.relu("y", net.emit("first", relax.TupleGetItem(dropped, 0))))
    expect_rewrite(RemoveIdentity(), before, wanted.module(wanted.relu("y", wanted.x)))


def test_a_concat_loses_what_is_empty(expect_rewrite):
    """Partial rotary embeddings write so where they turn all channels."""
    net, wanted = NetworkWriter((2, 4)), NetworkWriter((2, 4))
    none = net.emit("none", op.strided_slice(net.x, [1], [4], [4]))
    a, b = net.relu("a", net.x), wanted.relu("a", wanted.x)
    before = net.module(net.emit("y", op.concat([a, none, net.x], 1)))
    after = wanted.module(wanted.emit("y", op.concat([b, wanted.x], 1)))
    expect_rewrite(RemoveIdentity(), before, after)


KEPT = {
    "constant minus x": lambda x: op.subtract(const(0), x),
    "constant over x": lambda x: op.divide(const(1), x),
    "times a number": lambda x: op.multiply(x, const(2)),
    "plus one channel's number": lambda x: op.add(
        x, relax.const(np.array([0, 0, 0, 1], "float32").reshape(1, 4, 1, 1))
    ),
    "a product that broadcasts": lambda x: op.multiply(x, const(1, (3, 1, 1, 1, 1))),
    "a condition that changes": lambda x: op.where(
        relax.const(np.array([True] * 5 + [False])), x, const(3)
    ),
    "a chosen constant": lambda x: op.where(relax.const(np.zeros((1, 1), bool)), x, const(3)),
    "a square turned": lambda x: op.permute_dims(x, [0, 1, 3, 2]),
    "copies": lambda x: op.tile(x, [1, 2, 1, 1]),
    "reversed": lambda x: sliced(x, -1),
    "pool of one step": lambda x: nn.max_pool2d(x, (3, 3), padding=(1, 1)),
    "joined to itself": lambda x: op.concat([x, x], 1),
    "another type": lambda x: op.astype(x, "float16"),
    "another shape": lambda x: op.reshape(x, (8, 6, 6)),
    "relu": nn.relu,
}


@pytest.mark.parametrize("case", KEPT)
def test_others_stay(expect_rewrite, case):
    net = NetworkWriter((2, 4, 6, 6))
    mod = net.module(net.emit("y", KEPT[case](net.x)))
    expect_rewrite(RemoveIdentity(), mod, mod)


def test_an_input_that_is_a_result_stays_a_result_of_its_own():
    net = NetworkWriter((2, 3))
    mod = net.module(net.emit("y", op.multiply(net.x, const(1))))
    (call,) = [
        binding
        for block in RemoveIdentity()(mod)["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]
    assert (call.var.name, call.value.op.name) == ("y", "relax.reshape")
