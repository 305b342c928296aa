"""CanonicalizeGuard: rows whose scores are all -inf are found by their softmax."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.canonicalize_guard import CanonicalizeGuard
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
ZERO = relax.const(np.float32(0))


def reduced(net, truth, op, axis=-1):
    numbers = net.emit("bytes", relax.op.astype(truth, "int8"))
    most = net.emit("reduced", op(numbers, [axis], True))
    return net.emit("any", relax.op.astype(most, "bool"))


def network(form, *, excluded=-np.inf, axis=-1, is_swapped=False):
    """A softmax with a guard, as PyTorch decomposes it (``form`` 0), or as it could be written."""
    net = NetworkWriter((2, 3, 4))
    p = net.emit("p", relax.op.nn.softmax(net.x, -1))
    hidden = net.emit("eq", relax.op.equal(net.x, relax.const(np.float32(excluded))))
    if form < 2:
        kept = net.emit("ne", relax.op.logical_not(hidden))
        condition = reduced(net, kept, relax.op.max, axis)
        condition = net.emit("not", relax.op.logical_not(condition)) if form == 0 else condition
    else:
        condition = reduced(net, hidden, relax.op.min, axis)
        condition = net.emit("not", relax.op.logical_not(condition)) if form == 3 else condition
    choices = [p, ZERO] if (form in (1, 3)) != is_swapped else [ZERO, p]
    return net.module(net.emit("y", relax.op.where(condition, *choices)))


@pytest.mark.parametrize("form", range(4))
def test_the_softmax_is_tested(form):
    before = network(form)
    original = before.clone()
    after = CanonicalizeGuard()(before)
    found = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert found == ["nn.softmax", "isnan", "where"]
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    x[0, 1], x[1, 2, 1] = -np.inf, -np.inf
    y = run_fast(after, x)[0]
    np.testing.assert_array_equal(y, run_fast(before, x)[0])
    assert not y[0, 1].any()
    assert before.script() == original.script()


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("options", [{"excluded": 0.0}, {"axis": 1}, {"is_swapped": True}], ids=str)
def test_other_choices_stay(form, options):
    before = network(form, **options)
    assert CanonicalizeGuard()(before).script() == before.script()
