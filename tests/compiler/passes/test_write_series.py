"""WriteSeries: functions of float islands are written out, and have the bits of docs/design.md."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.passes.lower.inline_islands import InlineIslands
from relay_int8.compiler.passes.lower.write_series import WriteSeries
from schedules.targets import named_target
from tests.compiler.passes.float_islands import island, network
from tests.compiler.passes.test_inline_islands import softplus
from tests.oracle import series

pytestmark = pytest.mark.fast
FUNCTIONS = {
    "exp": relax.op.exp,
    "tanh": relax.op.tanh,
    "erf": relax.op.erf,
    "log": relax.op.log,
    "sin": relax.op.sin,
    "cos": relax.op.cos,
}
X = np.random.default_rng(0).normal(0, 4, (2, 3, 40)).astype("float32")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_call_of_the_library_is_left(name: str):
    text = WriteSeries()(island(FUNCTIONS[name], X.shape)).script()
    assert "llvm.fma" in text
    assert f"T.{name}(" not in text


def test_in_chains_too():
    text = WriteSeries()(InlineIslands()(island(softplus, X.shape))).script()
    assert "T.exp(" not in text
    assert "T.log(" not in text


def test_other_types_keep_the_library():
    mod = island(lambda x: relax.op.exp(relax.op.astype(x, "float64")), X.shape)
    assert "T.exp(" in WriteSeries()(mod).script()


def test_int64_of_floats_keeps_the_library():
    """Relative positions of LayoutLMv3, whose logarithms say which bucket they are in."""

    def bucket(x: relax.Expr) -> relax.Expr:
        shares = relax.op.divide(x, relax.const(4.0, "float32"))
        number = relax.op.multiply(relax.op.log(shares), relax.const(1.5, "float32"))
        return relax.op.add(relax.op.astype(number, "int64"), relax.const(4, "int64"))

    x = np.abs(X) + np.float32(0.01)
    machine = virtual_machine(compile_module(network(bucket, X.shape), named_target("x86")))
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_array_equal(found, 4 + np.trunc(np.log(x / 4) * np.float32(1.5)))


@pytest.mark.parametrize(
    "target",
    [
        "x86",
        pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
        pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
    ],
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_networks_compute_them(name: str, target: str):
    mod = network(FUNCTIONS[name], X.shape)
    machine = virtual_machine(compile_module(mod, named_target(target)))
    found = machine["main"](tvm.runtime.tensor(X)).numpy()
    np.testing.assert_array_equal(found, getattr(series, name)(X))


@pytest.mark.parametrize(
    "target", ["x86", pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni"))]
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors_of_an_axis_of_sixteen(name: str, target: str):
    """TVM's own vectors, as Mamba's states have: both operands of the product broadcast."""
    a, b = X.reshape(4, 60, 1), X.reshape(-1)[:64].reshape(4, 1, 16)
    mod = network(lambda a, b: FUNCTIONS[name](relax.op.multiply(a, b)), a.shape, b.shape)
    machine = virtual_machine(compile_module(mod, named_target(target)))
    found = machine["main"](*map(tvm.runtime.tensor, (a, b))).numpy()
    np.testing.assert_array_equal(found, getattr(series, name)(a * b))
