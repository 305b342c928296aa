"""TurnNorms: the channels of an image are normalized where they are."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.turn_norms import TurnNorms
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call, spec_of
from schedules.spec import Move, Normalize
from tests.kernel_interpreter import interpret

pytestmark = pytest.mark.fast

IMAGE, ROWS = (2, 32, 3, 5), (2, 3, 5, 32)
STEPS = {
    "s": np.array([0.03], "float32"),
    "z": np.array([7], "int32"),
    "clamp": np.array([-107, 120], "float32"),
}
X = np.random.default_rng(0).normal(size=IMAGE).astype("float32")


def turn(x_shape: tuple[int, ...], order: tuple[int, ...], dtype: Any) -> Move:
    y_shape = tuple(x_shape[axis] for axis in order)
    return Move(move="transpose", x_shape=x_shape, y_shape=y_shape, arguments=order, x=dtype)


def factors(channels: int) -> dict[str, np.ndarray]:
    return {
        "gamma": np.linspace(0.5, 2, channels, dtype="float32"),
        "beta": np.linspace(-1, 1, channels, dtype="float32"),
        "epsilon": np.array([1e-5], "float32"),
        "count": np.array([channels], "float32"),
    }


def network(y: Any = "int8", kind: str = "", image: tuple[int, ...] = IMAGE) -> tvm.IRModule:
    """Return a norm between transpositions."""
    writer = FunctionWriter()
    x = relax.Var("x", relax.TensorType(image, "float32"))

    def call(name: str, spec: Any, tensor: relax.Var, **params: np.ndarray) -> relax.Var:
        return writer.emit(name, kernel_call(spec, [tensor], params))

    n, c, h, w = image
    last = call("last", turn(image, (0, 2, 3, 1), "float32"), x)
    axes, count = (2, c * w) if kind == "two axes" else (1, c)
    spec = Normalize(dims=(n, h, w, c), axes=axes, y=y)
    steps = {} if y == "float32" else STEPS
    norm = call("norm", spec, last, **factors(count), **steps)
    order = (0, 3, 2, 1) if kind == "another order" else (0, 3, 1, 2)
    first = call("first", turn((n, h, w, c), order, y), norm)
    others = {"norm read too": [norm], "rows read too": [last]}.get(kind, [])
    return writer.finish([x], [first, *others])


def specs(mod: tvm.IRModule) -> list[Any]:
    return [spec_of(value) for _, value in dataflow.calls(mod["main"])]


@pytest.mark.parametrize("y", ["int8", "float32"])
def test_a_norm_between_transpositions_is_one_kernel(y):
    mod = network(y)
    original = mod.clone()
    after = TurnNorms()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    assert specs(after) == [Normalize(dims=IMAGE, pixels=True, y=y)]
    expected, found = interpret(mod, {"x": X}), interpret(after, {"x": X})
    np.testing.assert_array_equal(found["first"], expected["first"])


def test_rows_that_something_else_reads_stay_for_that():
    found = specs(TurnNorms()(network(kind="rows read too")))
    assert [spec.kind for spec in found] == ["move", "normalize"] and found[1].pixels


@pytest.mark.parametrize("kind", ["norm read too", "two axes", "another order"])
def test_other_norms_stay(expect_rewrite, kind):
    mod = network(kind=kind)
    expect_rewrite(TurnNorms(), mod, mod)


def test_channels_that_fill_no_blocks_stay(expect_rewrite):
    mod = network(image=(2, 24, 3, 5))
    expect_rewrite(TurnNorms(), mod, mod)
