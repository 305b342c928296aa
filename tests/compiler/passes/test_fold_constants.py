"""FoldConstants: what depends on constants alone is computed, in double precision."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.fold_constants import FoldConstants
from relay_int8.graph import dataflow
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
op = relax.op
RNG = np.random.default_rng(0)
F32 = "float32"
BIAS = np.arange(8, dtype=F32)
BIAS_4 = BIAS.reshape(1, 8, 1, 1)
STEPS = np.array([-3, 0, 100000], "int32")
STEP_S = np.array([0.1, 0.2, 0.3], F32)
REALS = (STEPS * STEP_S.astype("float64")).astype(F32)
STEP_Z = np.zeros(3, "int32")


def test_a_reshaped_bias_is_a_constant(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 8, 2, 2), "float32")) -> R.Tensor((1, 8, 2, 2), "float32"):
            with R.dataflow():
                b = R.reshape(R.const(BIAS), (1, 8, 1, 1))
                y = R.add(x, b)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 8, 2, 2), "float32")) -> R.Tensor((1, 8, 2, 2), "float32"):
            with R.dataflow():
                y = R.add(x, R.const(BIAS_4))
                R.output(y)
            return y

    expect_rewrite(FoldConstants(), Before, Expected)


def test_biases_of_int32_become_real(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                b = R.dequantize(R.const(STEPS), R.const(STEP_S), R.const(STEP_Z), axis=0)
                y = R.add(x, b)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                y = R.add(x, R.const(REALS))
                R.output(y)
            return y

    expect_rewrite(FoldConstants(), Before, Expected)


A = RNG.normal(size=(3, 4)).astype(F32)
B = RNG.normal(size=(3, 4)).astype(F32)
I64 = np.array([2, 0], "int64")
PLACES = np.array([[2, 1], [0, 3], [2, -1]], "int64")
a, b = relax.const(A), relax.const(B)
WIDE = A.astype("float64")
ZEROS = relax.const(np.zeros((3, 4), F32))
THREE = BIAS[1:4]


def scattered(places, **changes):
    """Return zeros with what was written at places of them."""
    y = np.zeros((3, 4), "float64")
    for place, value in zip(places, changes.get("values", THREE), strict=True):
        y[place] = y[place] + value if changes.get("add") else value
    return y


FOLDED = {
    "arithmetic": (lambda: op.multiply(a, b), WIDE * B),
    "a function": (lambda: op.exp(a), np.exp(WIDE)),
    "relu": (lambda: op.nn.relu(a), np.maximum(A, 0)),
    "clip": (
        lambda: op.clip(a, relax.prim_value(-0.5), relax.prim_value(0.25)),
        np.clip(A, -0.5, 0.25),
    ),
    "reduction": (lambda: op.mean(a, [1], keepdims=True), WIDE.mean(1, keepdims=True)),
    "reduction of all": (lambda: op.sum(a), WIDE.sum()),
    "softmax": (
        lambda: op.nn.softmax(a, 0),
        np.exp(WIDE - WIDE.max(0)) / np.exp(WIDE - WIDE.max(0)).sum(0),
    ),
    "comparison": (lambda: op.greater(a, b), A > B),
    "transpose": (lambda: op.permute_dims(a), A.T),
    "broadcast": (lambda: op.broadcast_to(a, (2, 3, 4)), np.broadcast_to(A, (2, 3, 4))),
    "concat": (lambda: op.concat([a, b], 1), np.concatenate([A, B], 1)),
    "cast": (lambda: op.astype(a, "int32"), A.astype("int32")),
    "slice": (lambda: op.strided_slice(a, [1], [1], [4], [2]), A[:, 1:4:2]),
    "slice from behind": (lambda: op.strided_slice(a, [1], [9], [-9], [-1]), A[:, ::-1]),
    "take": (lambda: op.take(a, relax.const(I64), axis=0), A[[2, 0]]),
    "running sums": (lambda: op.cumsum(a, 1), WIDE.cumsum(1)),
    "exclusive sums": (lambda: op.cumsum(a, 0, exclusive=True), WIDE.cumsum(0) - WIDE),
    "gather elements": (
        lambda: op.gather_nd(a, relax.const(PLACES, "int64")),
        A[[2, 0, 2], [1, 3, -1]],
    ),
    "gather rows": (lambda: op.gather_nd(a, relax.const(PLACES[:, :1], "int64")), A[[2, 0, 2]]),
    "gather along": (
        lambda: op.gather_elements(a, relax.const(PLACES, "int64"), 1),
        np.take_along_axis(A, PLACES, 1),
    ),
    "gather along a row": (
        lambda: op.gather_elements(a, relax.const(PLACES[2:], "int64"), 1),
        np.take_along_axis(A[:1], PLACES[2:], 1),
    ),
    "numbers at places": (
        lambda: op.scatter_nd(ZEROS, relax.const(PLACES, "int64"), relax.const(THREE)),
        scattered([(2, 1), (0, 3), (2, 3)]),
    ),
    "numbers added at places": (
        lambda: op.scatter_nd(ZEROS, relax.const(PLACES[[0, 1, 0]]), relax.const(THREE), "add"),
        scattered([(2, 1), (0, 3), (2, 1)], add=True),
    ),
    "numbers along rows": (
        lambda: op.scatter_elements(
            ZEROS, relax.const(PLACES[:1], "int64"), relax.const(A[:1, :2]), 1
        ),
        scattered([(0, 2), (0, 1)], values=A[0, :2]),
    ),
    "numbers added along columns": (
        lambda: op.scatter_elements(
            ZEROS, relax.const(I64[None, [0, 1, 0]]), relax.const(THREE[None]), 0, "add"
        ),
        scattered([(2, 0), (0, 1), (2, 2)], add=True),
    ),
    "layer norm": (
        lambda: op.nn.layer_norm(a, relax.const(BIAS[:4]), relax.const(BIAS[4:]), -1, 0.5),
        (WIDE - WIDE.mean(1, keepdims=True)) / np.sqrt(WIDE.var(1, keepdims=True) + 0.5) * BIAS[:4]
        + BIAS[4:],
    ),
    "pad": (
        lambda: op.nn.pad(a, [1, 0, 0, 2], "constant", 0.5),
        np.pad(A, [(1, 0), (0, 2)], constant_values=0.5),
    ),
    "pad by mirrors": (
        lambda: op.nn.pad(a, [1, 0, 0, 2], "reflect"),
        np.pad(A, [(1, 0), (0, 2)], "reflect"),
    ),
    "tile": (lambda: op.tile(a, [2, 1, 3]), np.tile(A, (2, 1, 3))),
}


@pytest.mark.parametrize("case", FOLDED)
def test_constant_expressions_are_computed(case):
    make, wanted = FOLDED[case]
    net = NetworkWriter((2, 3))
    folded = FoldConstants()(net.module(net.relu("y", net.x), net.emit("c", make())))
    constants = [
        dataflow.constant(value) for var, value in dataflow.calls(folded["main"]) if var.name == "c"
    ]
    np.testing.assert_array_equal(constants[0], np.asarray(wanted, constants[0].dtype))


def test_a_chain_is_rounded_once():
    tiny = relax.const(np.float32(1e-8))
    net = NetworkWriter((2,))
    c = net.emit("c", op.subtract(net.emit("s", op.add(a, tiny)), a))
    folded = FoldConstants()(
        net.module(net.emit("y", op.multiply(net.x, net.emit("m", op.max(c)))))
    )
    ((_, y),) = dataflow.calls(folded["main"])
    wanted = (WIDE + np.float64(np.float32(1e-8)) - WIDE).max().astype(F32)
    assert wanted > 0
    np.testing.assert_array_equal(dataflow.constant(y.args[1]), wanted)


def test_a_convolution_of_a_constant_image():
    """XCiT encodes positions of pixels by sines and a convolution."""
    image, w = RNG.normal(size=(1, 4, 3, 3)), RNG.normal(size=(6, 2, 1, 1))
    layer = op.nn.conv2d(relax.const(image.astype(F32)), relax.const(w.astype(F32)), groups=2)
    net = NetworkWriter((1, 6, 3, 3))
    mod = net.module(net.emit("y", op.add(net.x, net.emit("c", layer))))
    ((_, y),) = dataflow.calls(FoldConstants()(mod)["main"])
    halves = zip(np.split(image.astype(F32), 2, 1), np.split(w.astype(F32), 2), strict=True)
    wanted = [np.einsum("nchw,oc->nohw", x, k[:, :, 0, 0], dtype="float64") for x, k in halves]
    found = dataflow.constant(y.args[1])
    np.testing.assert_allclose(found, np.concatenate(wanted, 1), rtol=0, atol=1e-6)


def test_a_transposed_convolution_of_a_constant_image():
    """``fold(unfold(ones))`` counts the windows that read a pixel."""
    ones = (relax.const(np.ones(shape, F32)) for shape in ((1, 1, 2, 1), (1, 1, 3, 1)))
    layer = op.nn.conv2d_transpose(*ones, strides=(2, 1))
    net = NetworkWriter((1, 1, 5, 1))
    mod = net.module(net.emit("y", op.divide(net.x, net.emit("c", layer))))
    ((_, y),) = dataflow.calls(FoldConstants()(mod)["main"])
    np.testing.assert_array_equal(dataflow.constant(y.args[1]).ravel(), [1, 1, 2, 1, 1])


@pytest.mark.parametrize(
    ("method", "coordinates", "size"),
    [
        ("linear", "half_pixel", (5, 6)),
        ("linear", "align_corners", (7, 2)),
        ("linear", "asymmetric", (2, 6)),
        ("nearest_neighbor", "asymmetric", (6, 2)),
    ],
)
def test_a_constant_image_of_another_size(method: str, coordinates: str, size: tuple[int, int]):
    """PVT resizes its encoded positions, DETR its mask of pixels."""
    image = RNG.normal(size=(1, 2, 3, 4)).astype(F32)
    how = {"method": method, "coordinate_transformation_mode": coordinates}
    how |= {"rounding_method": "floor"}
    nets = [NetworkWriter((1, 2, *size)), NetworkWriter((1, 2, 3, 4))]
    resized = op.image.resize2d(relax.const(image), size, **how)
    y = nets[0].emit("y", op.add(nets[0].x, nets[0].emit("c", resized)))
    ((_, add),) = dataflow.calls(FoldConstants()(nets[0].module(y))["main"])
    mod = nets[1].module(nets[1].emit("y", op.image.resize2d(nets[1].x, size, **how)))
    assert_close([dataflow.constant(add.args[1])], run_relax(mod, image))


@pytest.mark.parametrize("axis", [0, 1])
def test_weights_that_a_batch_norm_standardizes(axis):
    """Exporters write weight standardization as a batch norm of constants."""
    count = A.shape[axis]
    gamma, beta, mean, variance = (RNG.uniform(0.5, 1.5, count).astype(F32) for _ in range(4))
    net = NetworkWriter((2, 3))
    parts = map(relax.const, (gamma, beta, mean, variance))
    norm = net.emit("norm", op.nn.batch_norm(a, *parts, axis, 0.5, training=False))
    c = net.emit("c", relax.TupleGetItem(norm, 0))
    folded = FoldConstants()(net.module(net.relu("y", net.x), c))
    found = {str(var.name): value for var, value in dataflow.calls(folded["main"])}
    along = (-1, 1) if axis == 0 else (1, -1)
    g, shift, m, v = (
        part.astype("float64").reshape(along) for part in (gamma, beta, mean, variance)
    )
    wanted = (WIDE - m) / np.sqrt(v + 0.5) * g + shift
    np.testing.assert_array_equal(dataflow.constant(found["c"]), wanted.astype(F32))
    assert "norm" not in found


def test_a_scalar_with_a_pair_is_what_its_integer_stands_for():
    """16 is beyond 255 steps of 1/16 from 3: its square root is that of 15.75."""
    parameters = relax.const(0.0625), relax.const(3, "uint8")
    net = NetworkWriter((3, 4))
    q = net.emit("q", op.quantize(relax.const(16.0), *parameters, out_dtype="uint8"))
    real = net.emit("real", op.dequantize(q, *parameters))
    root = net.emit("root", op.sqrt(real))
    mod = FoldConstants()(net.module(net.emit("y", op.divide(net.x, root))))
    ((_, value),) = dataflow.calls(mod["main"])
    assert dataflow.constant(value.args[1]) == np.float32(np.sqrt(15.75))


Q8 = relax.const(np.array([1, 2], "int8"))
KEPT = {
    "weights of int8": lambda x: op.dequantize(Q8, relax.const(0.5), relax.const(0, "int8")),
    "their quantize": lambda x: op.quantize(a, relax.const(0.5), relax.const(0, "int8")),
    "a tensor": lambda x: op.add(x, a),
    "an index outside": lambda x: op.take(a, relax.const(np.array([3], "int64")), axis=0),
    "a negative index": lambda x: op.take(a, relax.const(np.array([-1], "int64")), axis=0),
    "a cubic resize": lambda x: op.image.resize2d(
        relax.const(A.reshape(1, 1, 3, 4)), (3, 4), method="cubic"
    ),
    "a place outside": lambda x: op.gather_nd(a, relax.const(np.array([[3, 0]]), "int64")),
    "a column outside": lambda x: op.gather_elements(a, relax.const(np.array([[4]]), "int64"), 1),
    "a number outside": lambda x: op.scatter_nd(
        a, relax.const(np.array([[3, 0]]), "int64"), relax.const(THREE[:1])
    ),
    "a number outside of rows": lambda x: op.scatter_elements(
        a, relax.const(np.array([[4]]), "int64"), relax.const(THREE[None, :1]), 1
    ),
    "places of batches": lambda x: op.gather_nd(a, relax.const(PLACES[:, :1], "int64"), 1),
    "the shape of a tensor": lambda x: op.shape_of(x),
}


@pytest.mark.parametrize("case", KEPT)
def test_others_stay(case, expect_rewrite):
    net = NetworkWriter((3, 4))
    mod = net.module(net.emit("y", KEPT[case](net.x)))
    expect_rewrite(FoldConstants(), mod, mod)
