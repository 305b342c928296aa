"""JoinQuantize: what a quantize alone reads is rounded by the kernel that computes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.join_quantize import JoinQuantize
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.origins import Origins
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.spec import Binary, Dequantize, Move, Normalize, Quantize, Rescale, Softmax
from tests.kernel_interpreter import interpret

pytestmark = pytest.mark.fast

DIMS = (2, 6, 3, 4)
NORM = Normalize(dims=DIMS, groups=3, y="float32")
FACTORS = {
    "gamma": np.linspace(0.5, 2, 6, dtype="float32"),
    "beta": np.linspace(-1, 1, 6, dtype="float32"),
    "epsilon": np.array([1e-5], "float32"),
    "count": np.array([24], "float32"),
}
STEPS = {
    "s": np.array([0.03], "float32"),
    "z": np.array([7], "int32"),
    "clamp": np.array([-107, 120], "float32"),
}
TURN = Move(
    move="transpose", x_shape=DIMS, y_shape=(2, 3, 4, 6), arguments=(0, 2, 3, 1), x="float32"
)
FLAT = Move(move="reshape", x_shape=(2, 3, 4, 6), y_shape=(24, 6), x="float32")
X = np.random.default_rng(0).normal(size=DIMS).astype("float32") * np.float32(3)


def bound(low: float, high: float) -> tuple[Rescale, dict[str, Any]]:
    spec = Rescale(dims=DIMS, x="float32", y="float32")
    return spec, {"clamp": np.array([low, high], "float32")}


class Calls:
    """Writes kernel calls one after the other."""

    def __init__(self) -> None:
        self.writer = FunctionWriter()
        self.x = relax.Var("x", relax.TensorType(DIMS, "float32"))

    def call(self, name: str, spec: Any, x: relax.Var, **params: np.ndarray) -> relax.Var:
        return self.writer.emit(name, kernel_call(spec, [x], params))

    def norm(self, name: str = "norm") -> relax.Var:
        return self.call(name, NORM, self.x, **FACTORS)

    def quantized(self, name: str, x: relax.Var, **steps: np.ndarray) -> relax.Var:
        return self.call(name, Quantize(dims=dataflow.shape(x), y="int8"), x, **(STEPS | steps))

    def finish(self, *outputs: relax.Var) -> tvm.IRModule:
        return self.writer.finish([self.x], outputs)


def joined(mod: tvm.IRModule) -> dict[str, relax.Expr]:
    """Return the calls that are left; what they give is what it was."""
    original = mod.clone()
    after = JoinQuantize()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    expected, found = interpret(mod, {"x": X}), interpret(after, {"x": X})
    for var in dataflow.results(after["main"]):
        np.testing.assert_array_equal(found[var.name], expected[var.name])
    return {str(var.name): value for var, value in dataflow.calls(after["main"])}


def kinds(calls: dict[str, relax.Expr]) -> list[tuple[str, str]]:
    return [(spec_of(value).kind, spec_of(value).dtype("y")) for value in calls.values()]


def test_a_norm_gives_integers(expect_rewrite):
    before = Calls()
    mod = before.finish(before.quantized("norm:int", before.norm()))
    after = Calls()
    spec = Normalize(dims=DIMS, groups=3, y="int8")
    expected = after.finish(after.call("norm:int", spec, after.x, **FACTORS, **STEPS))
    found = JoinQuantize()(mod)
    assert Origins(found["main"]).of("norm:int").tensor == "norm"
    expect_rewrite(lambda m: tvm.IRModule({"main": _plain(JoinQuantize()(m))}), mod, expected)


def _plain(mod: tvm.IRModule) -> relax.Function:
    func = mod["main"]
    return func.without_attr("int8.origins")


def test_softmax_gives_integers():
    net = Calls()
    shares = net.call("shares", Softmax(dims=DIMS, y="float32"), net.x)
    calls = joined(net.finish(net.quantized("q", shares, s=np.array([1 / 255], "float32"))))
    assert kinds(calls) == [("softmax", "int8")]


@pytest.mark.parametrize("operator", ["add", "mul", "max"])
def test_arithmetic_gives_integers_within_its_own_bounds(operator):
    net = Calls()
    spec = Binary(
        operator=operator, a_shape=DIMS, b_shape=DIMS, a="float32", b="float32", y="float32"
    )
    norm = net.norm()
    clamp = {"clamp": np.array([-0.5, np.inf], "float32")}
    result = net.writer.emit("result", kernel_call(spec, [net.x, norm], clamp))
    calls = joined(net.finish(net.quantized("q", result)))
    assert kinds(calls) == [("normalize", "float32"), ("binary", "int8")]
    _, params = operands(calls["q"], spec_of(calls["q"]))
    assert params["clamp"].tolist() == [-17, 120]


def test_arithmetic_of_integers_stays():
    net = Calls()
    q = net.quantized("q", net.x)
    spec = Binary(operator="mul", a_shape=DIMS, b_shape=DIMS, a="int8", b="int8", y="float32")
    steps = {"m": np.array([0.01], "float32"), "z": np.array([7, 7, 0], "int32")}
    bounds = {"clamp": np.array([-9, 9], "float32")}
    square = net.writer.emit("square", kernel_call(spec, [q, q], steps | bounds))
    calls = joined(net.finish(net.quantized("y", square)))
    assert [kind for kind, _ in kinds(calls)] == ["quantize", "binary", "quantize"]


def test_moves_between_them_move_integers():
    net = Calls()
    turned = net.call("turned", TURN, net.norm())
    flat = net.call("flat", FLAT, turned)
    mod = net.finish(net.quantized("q", flat))
    calls = joined(mod)
    assert kinds(calls) == [("normalize", "int8"), ("move", "int8"), ("move", "int8")]
    assert list(calls) == ["norm:int", "turned:int", "q"]
    assert Origins(JoinQuantize()(mod)["main"]).of("q").tensor == "flat"


@pytest.mark.parametrize(
    ("low", "high", "clamp"),
    [
        (0, np.inf, [0, 120]),
        (-0.5, 1, [-17, 33]),
        (-np.inf, np.inf, [-107, 120]),
        (-9, -8, [-107, -107]),
        (8, 9, [120, 120]),
    ],
)
def test_bounds_become_those_of_the_integers(low, high, clamp):
    net = Calls()
    spec, bounds = bound(low, high)
    limited = net.call("limited", spec, net.norm(), **bounds)
    mod = net.finish(net.quantized("q", limited))
    calls = joined(mod)
    assert kinds(calls) == [("normalize", "int8")]
    _, params = operands(calls["q"], spec_of(calls["q"]))
    assert params["clamp"].tolist() == clamp and params["clamp"].dtype == np.float32
    assert Origins(JoinQuantize()(mod)["main"]).of("q").tensor == "limited"


def test_bounds_before_a_move():
    net = Calls()
    spec, bounds = bound(-0.2, 2)
    inner = net.call("inner", spec, net.norm(), **bounds)
    turned = net.call("turned", TURN, inner)
    calls = joined(net.finish(net.quantized("q", turned)))
    assert kinds(calls) == [("normalize", "int8"), ("move", "int8")]
    assert list(calls) == ["inner:int", "q"]


def read_twice(net: Calls) -> tuple[relax.Var, ...]:
    norm = net.norm()
    other = STEPS | {"s": np.array([0.05], "float32")}
    return net.quantized("q", norm), net.quantized("p", norm, **other)


def returned(net: Calls) -> tuple[relax.Var, ...]:
    norm = net.norm()
    return net.quantized("q", norm), norm


def padded(net: Calls) -> tuple[relax.Var, ...]:
    spec = Move(move="pad", x_shape=DIMS, y_shape=(2, 6, 4, 4), arguments=(0, 0, 1, 0), x="float32")
    fill = np.array([0.1], "float32")
    return (net.quantized("q", net.call("padded", spec, net.norm(), fill=fill)),)


def leaky(net: Calls) -> tuple[relax.Var, ...]:
    spec, bounds = bound(-np.inf, np.inf)
    spec = Rescale(dims=DIMS, x=spec.x, y=spec.y, leaky=True)
    alpha = np.full(6, 0.1, "float32")
    return (net.quantized("q", net.call("leaky", spec, net.norm(), alpha=alpha, **bounds)),)


def of_an_input(net: Calls) -> tuple[relax.Var, ...]:
    return (net.quantized("q", net.x),)


def of_integers(net: Calls) -> tuple[relax.Var, ...]:
    real = Dequantize(dims=DIMS, x="int8")
    steps = {"s": STEPS["s"], "z": STEPS["z"]}
    return (net.quantized("q", net.call("real", real, net.quantized("p", net.x), **steps)),)


@pytest.mark.parametrize("network", [read_twice, returned, padded, leaky, of_an_input, of_integers])
def test_others_stay(network: Callable[[Calls], tuple[relax.Var, ...]], expect_rewrite):
    net = Calls()
    mod = net.finish(*network(net))
    expect_rewrite(JoinQuantize(), mod, mod)
