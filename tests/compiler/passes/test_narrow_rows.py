"""NarrowRows: what treats each row by itself computes the rows that are read."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.narrow_rows import NarrowRows
from relay_int8.graph.dataflow import calls, operator, shape
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 6, 8)).astype("float32")
GAMMA, BETA = (relax.const(RNG.normal(size=8).astype("float32")) for _ in range(2))
WIDER = relax.const(RNG.normal(size=(8, 12)).astype("float32"))
NARROWER = relax.const(RNG.normal(size=(12, 8)).astype("float32"))
POSITIONS = relax.const(RNG.normal(size=(6, 8)).astype("float32"))


def block(readers: str = "", begin: int = 0, end: int = 1, axis: int = 1) -> tvm.IRModule:
    """Return the last block of a transformer, and rows of its norm; ``readers`` name one more."""
    net = NetworkWriter(X.shape)
    summed = net.emit("summed", relax.op.cumsum(net.x, 1))
    x = net.emit("placed", relax.op.add(summed, POSITIONS))
    norm = net.emit("norm", relax.op.nn.layer_norm(x, GAMMA, BETA, [-1], 1e-6))
    up = net.emit("up", relax.op.matmul(norm, WIDER))
    wide = net.emit("wide", relax.op.nn.gelu(up))
    down = net.emit("down", relax.op.matmul(wide, NARROWER))
    total = net.emit("total", relax.op.add(x, down))
    last = net.emit("last", relax.op.nn.rms_norm(total, GAMMA, [2], 1e-6))
    rows = net.emit("rows", relax.op.strided_slice(last, [axis], [begin], [end]))
    others = {
        "mean": relax.op.mean(last, [1]),
        "same rows": relax.op.strided_slice(last, [axis], [begin], [end]),
        "other rows": relax.op.strided_slice(last, [1], [2], [4]),
    }
    read = [rows, *([net.emit("other", others[readers])] if readers in others else [])]
    results = [net.emit(f"y{i}", relax.op.exp(item)) for i, item in enumerate(read)]
    return net.module(*results, *([last] if readers == "last" else []))


def rows_of(mod: tvm.IRModule) -> dict[str, int]:
    return {str(var.name): shape(var)[1] for var, _ in calls(mod["main"])}


@pytest.mark.parametrize("readers", ["", "same rows"])
@pytest.mark.parametrize(("begin", "end"), [(0, 1), (2, 5), (-1, 6)])
def test_rows_of_the_last_block(begin, end, readers):
    mod = block(readers, begin, end)
    original = mod.clone()
    after = NarrowRows()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    count = end - begin % 6
    found = rows_of(after)
    narrow = ("placed", "norm", "up", "wide", "down", "total", "last", "y0")
    assert {found[name] for name in narrow} == {count}
    assert found["summed"] == 6 and found["summed/rows"] == count
    for result, expected in zip(run_relax(after, X), run_relax(mod, X), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("readers", ["last", "mean", "other rows"])
def test_rows_that_others_read_too(readers):
    mod = block(readers)
    assert NarrowRows()(mod).same_as(mod)


def test_channels_are_no_rows():
    mod = block(axis=2)
    assert NarrowRows()(mod).same_as(mod)


def test_arithmetic_alone_stays():
    net = NetworkWriter(X.shape)
    y = net.emit("y", relax.op.exp(net.x))
    rows = net.emit("rows", relax.op.strided_slice(y, [1], [0], [1]))
    mod = net.module(net.emit("z", relax.op.abs(rows)))
    assert NarrowRows()(mod).same_as(mod)


@pytest.mark.parametrize(("axis", "ahead"), [(1, ["matmul", "nn.prelu"]), (2, [])])
def test_slopes_of_the_rows_stay_with_all_of_them(axis, ahead):
    net = NetworkWriter(X.shape)
    y = net.emit("y", relax.op.matmul(net.x, WIDER))
    slopes = relax.const(np.linspace(0.1, 0.9, (2, 6, 12)[axis], dtype="float32"))
    z = net.emit("z", relax.op.nn.prelu(y, slopes, axis=axis))
    rows = net.emit("rows", relax.op.strided_slice(z, [1], [2], [4]))
    mod = net.module(net.emit("w", relax.op.abs(rows)))
    after = NarrowRows()(mod)
    found = [operator(value) for _, value in calls(after["main"])]
    assert found[: found.index("strided_slice")] == ahead
    np.testing.assert_allclose(run_relax(after, X)[0], run_relax(mod, X)[0], 1e-5, 1e-6)


def test_a_slice_that_is_a_result_stays():
    net = NetworkWriter(X.shape)
    norm = net.emit("norm", relax.op.nn.rms_norm(net.x, GAMMA, [2], 1e-6))
    mod = net.module(net.emit("z", relax.op.strided_slice(norm, [1], [0], [1])))
    assert NarrowRows()(mod).same_as(mod)


def test_two_chains_read_other_rows_of_one_tensor():
    net = NetworkWriter(X.shape)
    wide = [net.emit(f"up{i}", relax.op.matmul(net.x, WIDER)) for i in range(2)]
    cut = [
        net.emit(f"rows{i}", relax.op.strided_slice(x, [1], [i], [i + 2]))
        for i, x in enumerate(wide)
    ]
    mod = net.module(*(net.emit(f"y{i}", relax.op.abs(x)) for i, x in enumerate(cut)))
    after = NarrowRows()(mod)
    kinds = [operator(call) for _, call in calls(after["main"])]
    assert kinds == ["strided_slice", "matmul"] * 2 + ["abs"] * 2
    for result, expected in zip(run_relax(after, X), run_relax(mod, X), strict=True):
        np.testing.assert_allclose(result, expected, 1e-5, 1e-6)
