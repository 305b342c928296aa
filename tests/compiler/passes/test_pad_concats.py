"""PadConcats: a constant of one value is joined by padding."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.pad_concats import PadConcats
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def filled(value, *dims):
    return relax.const(np.full(dims, value, np.float32))


def network(before=(), behind=(), axis=1):
    """Return a network that joins its input with constants."""
    net = NetworkWriter((1, 3, 4, 5))
    joined = relax.op.concat([*before, net.x, *behind], axis=axis)
    return net.module(net.emit("y", joined))


@pytest.mark.parametrize(
    ("options", "widths", "value"),
    [
        ({"behind": [filled(0, 1, 2, 4, 5)]}, [0, 0, 0, 2, 0, 0, 0, 0], 0),
        ({"before": [filled(-1.5, 1, 3, 1, 5)], "axis": -2}, [0, 0, 0, 0, 1, 0, 0, 0], -1.5),
        (
            {"before": [filled(0, 1, 1, 4, 5)] * 2, "behind": [filled(-0.0, 1, 1, 4, 5)]},
            [0, 0, 2, 1, 0, 0, 0, 0],
            0,
        ),
    ],
    ids=("channels", "rows", "both sides"),
)
def test_constants_are_padding(options, widths, value):
    before = network(**options)
    original = before.clone()
    after = PadConcats()(before)
    ((var, pad),) = dataflow.calls(after["main"])
    assert (var.name, dataflow.operator(pad)) == ("y", "nn.pad")
    assert ([int(width) for width in pad.attrs.pad_width], pad.attrs.pad_value) == (widths, value)
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], run_fast(before, x)[0])
    assert before.script() == original.script()


def two_tensors():
    net = NetworkWriter((1, 3, 4, 5))
    y = net.emit("a", relax.op.sin(net.x))
    return net.module(net.emit("y", relax.op.concat([net.x, filled(0, 1, 1, 4, 5), y], axis=1)))


@pytest.mark.parametrize(
    "before",
    [
        network(behind=[relax.const(np.eye(20, dtype="float32").reshape(1, 20, 4, 5))]),
        network(before=[filled(1, 1, 1, 4, 5)], behind=[filled(2, 1, 1, 4, 5)]),
        network(behind=[filled(np.inf, 1, 1, 4, 5)]),
        network(behind=[filled(0, 1, 3, 4, 5)], axis=0),
        two_tensors(),
    ],
    ids=("other values", "two values", "infinite", "images", "two tensors"),
)
def test_other_concats_stay(before):
    assert PadConcats()(before).script() == before.script()
