"""UnfoldComputedKernels: convolutions with computed weights are products of two activations."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.passes.normalize.unfold_computed_kernels import UnfoldComputedKernels
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import FunctionWriter, calls, operator
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.targets import TARGETS
from tests.onnx_models import run_relax
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.x86_targets import FASTEST

nn = relax.op.nn
CASES = {
    "correlation": ((1, 4, 9, 8), (3, 4, 3, 2), {}),
    "one for each channel": ((1, 6, 7, 7), (6, 1, 3, 3), {"groups": 6}),
    "groups, padded, strides": (
        (2, 6, 8, 7),
        (4, 3, 3, 3),
        {"groups": 2, "padding": (1, 0, 2, 1), "strides": 2},
    ),
    "dilated": ((1, 3, 9, 9), (2, 3, 3, 2), {"dilation": (2, 3)}),
    "points": ((2, 4, 3, 5), (5, 4, 1, 1), {}),
}
TRANSPOSED = {
    "k3 s2": ((1, 4, 5, 4), (4, 3, 3, 3), {"strides": 2}),
    "k4 s2 padded": ((2, 4, 4, 3), (4, 2, 4, 4), {"strides": 2, "padding": (1, 1, 1, 1)}),
    "groups, deep": (
        (1, 4, 4, 5),
        (4, 2, 5, 3),
        {"groups": 2, "strides": (2, 1), "padding": (3, 1, 2, 2), "output_padding": (1, 0)},
    ),
    "k1 s3": ((1, 2, 3, 3), (2, 2, 1, 1), {"strides": 3, "output_padding": (2, 1)}),
    "k3 s1": ((1, 2, 4, 4), (2, 3, 3, 3), {"padding": (1, 0, 1, 2)}),
}


def network(x_shape, w_shape, op, **attributes):
    """Return a module of a convolution whose weights are an input."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType(x_shape, "float32"))
    w = relax.Var("w", relax.TensorType(w_shape, "float32"))
    return func.finish([x, w], [func.emit("y", op(x, w, **attributes))])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("op", "case"),
    [
        *((nn.conv2d, case) for case in CASES.values()),
        *((nn.conv2d_transpose, case) for case in TRANSPOSED.values()),
    ],
    ids=[*CASES, *TRANSPOSED],
)
def test_same_numbers(op, case):
    """Small whole numbers: float32 sums are exact, whatever their order."""
    x_shape, w_shape, attributes = case
    before = network(x_shape, w_shape, op, **attributes)
    original = before.clone()
    after = UnfoldComputedKernels()(before)
    tvm.ir.assert_structural_equal(before, original)
    operators = [operator(value) for _, value in calls(after["main"])]
    assert "matmul" in operators
    assert not any("conv" in name for name in operators)
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-9, 10, s).astype("float32") for s in (x_shape, w_shape))
    np.testing.assert_array_equal(run_relax(after, x, w)[0], run_relax(before, x, w)[0])


@pytest.mark.fast
def test_all_products_are_planned_in_integers():
    mod = normalize()(network(*CASES["groups, padded, strides"][:2], nn.conv2d, groups=2))
    plan = annotate(mod, QuantConfig())
    (product,) = (layer for layer in plan.layers if layer.macs)
    assert (product.kind, product.integer) == ("product", True)


@pytest.mark.slow
def test_a_tracker_equals_the_oracle():
    """An image is correlated with a part of itself, channel by channel and as transposed weights."""
    rng = np.random.default_rng(2)
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType((1, 3, 12, 12), "float32"))
    w = relax.const(rng.normal(size=(8, 3, 3, 3), scale=0.3).astype("float32"))
    seen = func.emit("seen", nn.conv2d(x, w, padding=1))
    part = func.emit("part", relax.op.strided_slice(seen, [2, 3], [4, 4], [7, 7]))
    kernel = func.emit("kernel", relax.op.reshape(part, (8, 1, 3, 3)))
    one = func.emit("one", nn.conv2d(seen, kernel, groups=8, strides=2))
    kernel = func.emit("grown_kernel", relax.op.reshape(part, (8, 1, 3, 3)))
    y = func.emit("y", nn.conv2d_transpose(one, kernel, groups=8, strides=2, padding=1))
    network = QuantizedNetwork.make(normalize()(func.finish([x], [y])))
    products = [layer for layer in network.plan.layers if layer.kind == "product"]
    assert [layer.integer for layer in products] == [True, True]
    assert_equals_oracle(network, Target(TARGETS[FASTEST]), fewest=3)


@pytest.mark.fast
def test_what_stays():
    """Constant weights, also such as are computed of constants, and other layouts."""
    func = FunctionWriter()
    x = relax.Var("x", relax.TensorType((1, 2, 4, 4), "float32"))
    w = func.emit("w", relax.op.exp(relax.const(np.ones((3, 2, 2, 2), "float32"))))
    mod = func.finish([x], [func.emit("y", nn.conv2d(x, w))])
    tvm.ir.assert_structural_equal(mod, UnfoldComputedKernels()(mod))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    mod = network((1, 4, 4, 2), (3, 3, 2, 5), nn.conv2d, **layouts)
    tvm.ir.assert_structural_equal(mod, UnfoldComputedKernels()(mod))
