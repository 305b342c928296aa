"""CanonicalizeNorm: a norm that a file spells out is one operator, with its gamma and beta."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import tvm
from onnx.helper import make_node as node
from tvm import relax

from relay_int8.compiler.passes.normalize.canonicalize_norm import CanonicalizeNorm
from relay_int8.compiler.pipeline import normalized
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import dataflow
from relay_int8.graph.declined import collecting_declined
from tests.onnx_models import model
from tests.quantized_networks import float_tensors
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast

Written = Callable[["Writer"], relax.Var]
ROWS = (2, 5, 12)
IMAGE = (2, 6, 4, 5)
EPSILON = relax.const(np.float32(1e-5))


class Writer(NetworkWriter):
    """Writes the parts of a norm."""

    def mean(self, x: relax.Var, *axes: int) -> relax.Var:
        return self.emit("mean", relax.op.mean(x, list(axes or (-1,)), keepdims=True))

    def centred(self, *axes: int) -> relax.Var:
        return self.emit("centred", relax.op.subtract(self.x, self.mean(self.x, *axes)))

    def variance(self, d: relax.Var, *axes: int, square: str = "multiply") -> relax.Var:
        squares = {
            "multiply": lambda: relax.op.multiply(d, d),
            "power": lambda: relax.op.power(d, relax.const(np.float32(2))),
            "square": lambda: relax.op.square(d),
        }
        inner = self.mean(self.emit("squares", squares[square]()), *axes)
        return self.emit("variance", relax.op.add(inner, EPSILON))

    def root(self, d: relax.Var, *axes: int, **how: str) -> relax.Var:
        return self.emit("root", relax.op.sqrt(self.variance(d, *axes, **how)))

    def scaled(self, x: relax.Var, *dims: int) -> relax.Var:
        """Bind a product with gamma, plus beta."""
        scaled = self.emit("scaled", relax.op.multiply(self.constant(*dims), x))
        return self.emit("y", relax.op.add(scaled, self.constant(*dims)))


def rewritten(written: Written, dims: tuple[int, ...]) -> tuple[tvm.IRModule, tvm.IRModule]:
    """Return the module before and after; both compute the same."""
    net = Writer(dims)
    before = net.module(written(net))
    original = before.clone()
    after = CanonicalizeNorm()(before)
    tvm.ir.assert_structural_equal(before, original)
    relax.analysis.well_formed(after)
    x = np.random.default_rng(0).normal(1, 2, dims).astype("float32")
    expected, found = (float_tensors(mod, {"x": x})["y"] for mod in (before, after))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    return before, after


def operators(mod: tvm.IRModule) -> list[str]:
    return [dataflow.operator(value) for _, value in dataflow.calls(mod["main"])]


def opset_11(net: Writer, square: str = "power") -> relax.Var:
    """LayerNorm as PyTorch exported it before opset 17."""
    d = net.centred()
    return net.scaled(net.emit("n", relax.op.divide(d, net.root(d, square=square))), 12)


def twice_centred(net: Writer) -> relax.Var:
    """The deviation is computed from a difference of its own."""
    root = net.root(net.centred(), square="square")
    return net.scaled(net.emit("n", relax.op.divide(net.centred(), root)), 1, 12)


def by_variance(net: Writer) -> relax.Var:
    variance = net.emit("variance", relax.op.variance(net.x, [-1], keepdims=True))
    inverse = net.emit("inverse", relax.op.rsqrt(net.emit("v", relax.op.add(EPSILON, variance))))
    return net.scaled(net.emit("n", relax.op.multiply(inverse, net.centred())), 12)


def by_sample_variance(net: Writer) -> relax.Var:
    """As torch.var is by default: of one number less."""
    variance = net.emit("biased", relax.op.variance(net.x, [-1], keepdims=True))
    variance = net.emit("variance", relax.op.multiply(variance, relax.const(np.float32(12 / 11))))
    root = net.emit("root", relax.op.sqrt(net.emit("v", relax.op.add(variance, EPSILON))))
    return net.scaled(net.emit("n", relax.op.divide(net.centred(), root)), 12)


def reduced_first(net: Writer) -> relax.Var:
    """As PyTorch's exporter writes torch.var: the axis is reduced, and put back at the end."""
    d = net.centred()
    squares = net.emit("squares", relax.op.multiply(d, d))
    mean = net.emit("mean", relax.op.mean(squares, [-1], keepdims=False))
    total = net.emit("total", relax.op.multiply(mean, relax.const(np.float32(12))))
    sample = net.emit("sample", relax.op.divide(total, relax.const(np.float32(11))))
    variance = net.emit("variance", relax.op.reshape(sample, (*ROWS[:2], 1)))
    root = net.emit("root", relax.op.sqrt(net.emit("v", relax.op.add(variance, EPSILON))))
    return net.scaled(net.emit("n", relax.op.divide(d, root)), 12)


def by_power(net: Writer) -> relax.Var:
    d = net.centred()
    root = net.emit("root", relax.op.power(net.variance(d), relax.const(np.float32(0.5))))
    inner = net.emit(
        "n", relax.op.divide(net.emit("g", relax.op.multiply(net.constant(12), d)), root)
    )
    return net.emit("y", relax.op.subtract(inner, net.constant(12)))


def tensorflow(net: Writer) -> relax.Var:
    mean, d = net.mean(net.x), net.centred()
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(d)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(12)))
    shift = relax.op.subtract(net.constant(12), net.emit("mg", relax.op.multiply(mean, factor)))
    product = net.emit("xg", relax.op.multiply(net.x, factor))
    return net.emit("y", relax.op.add(product, net.emit("shift", shift)))


def keras(net: Writer, *, negative: bool = True, centred: bool = True) -> relax.Var:
    """As Keras 3 writes it: the mean's negative is added."""
    mean, d = net.mean(net.x), net.centred()
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(d)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(12)))
    shift = net.emit("negative", relax.op.negative(mean)) if negative else mean
    shift = net.emit("mg", relax.op.multiply(shift, factor))
    if centred:
        shift = net.emit("shift", relax.op.add(shift, net.constant(12)))
    product = net.emit("xg", relax.op.multiply(net.x, factor))
    return net.emit("y", relax.op.add(product, shift))


def keras_uncentred(net: Writer) -> relax.Var:
    return keras(net, centred=False)


def keras_of_the_mean_itself(net: Writer) -> relax.Var:
    return keras(net, negative=False)


def two_axes(net: Writer) -> relax.Var:
    d = net.centred(1, 2)
    return net.scaled(net.emit("n", relax.op.divide(d, net.root(d, 1, 2))), 5, 12)


LAYERS: dict[str, Written] = {
    **{f"squares by {how}": lambda net, how=how: opset_11(net, how) for how in ("multiply", "power", "square")},
    "two differences": twice_centred,
    "variance": by_variance,
    "powers": by_power,
    "TensorFlow": tensorflow,
    "Keras": keras,
    "Keras without beta": keras_uncentred,
    "two axes": two_axes,
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layer_norm(name):
    _, after = rewritten(LAYERS[name], ROWS)
    assert operators(after) == ["nn.layer_norm"]
    ((var, call),) = dataflow.calls(after["main"])
    assert var.name == "y"
    assert abs(call.attrs.epsilon - 1e-5) < 1e-9


def rsqrt(net: Writer) -> relax.Var:
    """As Hugging Face's Llama."""
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(net.x, square="power")))
    unit = net.emit("unit", relax.op.multiply(net.x, inverse))
    return net.emit("y", relax.op.multiply(net.constant(12), unit))


def reciprocal(net: Writer) -> relax.Var:
    one = relax.const(np.float32(1))
    inverse = net.emit("inverse", relax.op.divide(one, net.root(net.x)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(1, 1, 12)))
    return net.emit("y", relax.op.multiply(factor, net.x))


def quotient(net: Writer) -> relax.Var:
    return net.emit("y", relax.op.divide(net.x, net.root(net.x, square="square")))


def negative_power(net: Writer) -> relax.Var:
    half = relax.const(np.float32(-0.5))
    inverse = net.emit("inverse", relax.op.power(net.variance(net.x), half))
    return net.emit("y", relax.op.multiply(net.x, inverse))


def cast(net: Writer) -> relax.Var:
    """As Hugging Face's models of half precision, read in float32."""
    x = net.emit("cast", relax.op.astype(net.x, "float32"))
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(x)))
    unit = net.emit("unit", relax.op.multiply(x, inverse))
    back = net.emit("back", relax.op.astype(unit, "float32"))
    return net.emit("y", relax.op.multiply(net.constant(12), back))


def root_of_sum(net: Writer) -> relax.Var:
    """As MXNet's L2Normalization."""
    squares = net.emit("squares", relax.op.square(net.x))
    total = net.emit("total", relax.op.sum(squares, [1, 2], keepdims=True))
    shifted = net.emit("shifted", relax.op.add(total, EPSILON))
    return net.emit("y", relax.op.divide(net.x, net.emit("root", relax.op.sqrt(shifted))))


def unit_rows(net: Writer, bound: float = 1e-12) -> relax.Var:
    """As PyTorch's normalize: the norm has a bound, and is expanded."""
    squares = net.emit("squares", relax.op.multiply(net.x, net.x))
    total = net.emit("total", relax.op.sum(squares, [-1], keepdims=True))
    norm = net.emit("norm", relax.op.sqrt(total))
    bounded = net.emit("bounded", relax.op.maximum(norm, relax.const(np.float32(bound))))
    wide = net.emit("wide", relax.op.broadcast_to(bounded, dataflow.shape(net.x)))
    return net.emit("y", relax.op.divide(net.x, wide))


def bounded_square(net: Writer) -> relax.Var:
    """As TensorFlow's l2_normalize."""
    squares = net.emit("squares", relax.op.square(net.x))
    total = net.emit("total", relax.op.sum(squares, [-1], keepdims=True))
    bounded = net.emit("bounded", relax.op.maximum(total, relax.const(np.float32(1e-12))))
    return net.emit("y", relax.op.multiply(net.x, net.emit("r", relax.op.rsqrt(bounded))))


@pytest.mark.parametrize(
    "written",
    [
        rsqrt,
        reciprocal,
        quotient,
        negative_power,
        cast,
        root_of_sum,
        unit_rows,
        bounded_square,
    ],
)
def test_rms_norm(written):
    _, after = rewritten(written, ROWS)
    assert operators(after) == ["nn.rms_norm"]


def instances(net: Writer) -> relax.Var:
    """As TVM reads ONNX's InstanceNormalization."""
    axes = range(2, len(dataflow.shape(net.x)))
    d = net.centred(*axes)
    channels = (dataflow.shape(net.x)[1], *(1 for _ in axes))
    return net.scaled(net.emit("n", relax.op.divide(d, net.root(d, *axes))), *channels)


@pytest.mark.parametrize("dims", [IMAGE, (2, 6, 7)])
def test_instance_norm(dims):
    _, after = rewritten(instances, dims)
    assert operators(after) == ["nn.instance_norm"]


def groups(net: Writer) -> relax.Var:
    """As PyTorch exports GroupNorm."""
    x = net.emit("cut", relax.op.reshape(net.x, (2, 3, 40)))
    d = net.emit("centred", relax.op.subtract(x, net.mean(x, 2)))
    n = net.emit("n", relax.op.divide(d, net.root(d, 2)))
    ones = net.emit("ones", relax.op.multiply(n, relax.const(np.ones((3, 1), "float32"))))
    zeros = net.emit("zeros", relax.op.add(ones, relax.const(np.zeros((3, 1), "float32"))))
    return net.scaled(net.emit("joined", relax.op.reshape(zeros, IMAGE)), 6, 1, 1)


def test_group_norm():
    _, after = rewritten(groups, IMAGE)
    assert operators(after) == ["nn.group_norm"]
    ((_, call),) = dataflow.calls(after["main"])
    assert int(call.attrs.num_groups) == 3


def test_constants_join_a_norm_of_the_file():
    def written(net: Writer) -> relax.Var:
        norm = net.emit("norm", nn.layer_norm(net.x, net.constant(12), net.constant(12), [-1]))
        return net.scaled(norm, 12)

    _, after = rewritten(written, ROWS)
    assert operators(after) == ["nn.layer_norm"]


def test_what_a_norm_leaves_out_is_neutral():
    """As TVM reads ONNX's GroupNormalization: gamma and beta are one and zero, and not used."""

    def written(net: Writer) -> relax.Var:
        ones, zeros = relax.op.ones_like(net.constant(6)), relax.op.zeros_like(net.constant(6))
        factors = net.emit("ones", ones), net.emit("zeros", zeros)
        norm = nn.group_norm(net.x, *factors, 3, 1, [2, 3], center=False, scale=False)
        return net.scaled(net.emit("norm", norm), 6, 1, 1)

    _, after = rewritten(written, IMAGE)
    assert operators(after) == ["nn.group_norm"]
    ((_, call),) = dataflow.calls(after["main"])
    assert call.attrs.center and call.attrs.scale


LIKE_ONNX = {"g": np.linspace(0.5, 2, 8, dtype="float32"), "b": np.ones(8, "float32")}
MEAN = [
    node("ReduceMean", ["x"], ["m"], axes=[-1]),
    node("Sub", ["x", "m"], ["d"]),
    node("Pow", ["d", "two"], ["p"]),
    node("ReduceMean", ["p"], ["v"], axes=[-1]),
    node("Add", ["v", "epsilon"], ["ve"]),
    node("Sqrt", ["ve"], ["s"]),
    node("Div", ["d", "s"], ["n"]),
    node("Mul", ["n", "g"], ["ng"]),
    node("Add", ["ng", "b"], ["y"]),
]


@pytest.mark.parametrize(
    ("nodes", "dims", "opset", "expected"),
    [
        (MEAN, (2, 5, 8), 13, "nn.layer_norm"),
        (MEAN, (2, 3, 5, 8), 13, "nn.layer_norm"),
        ([node("LayerNormalization", ["x", "g"], ["y"])], (2, 5, 8), 17, "nn.layer_norm"),
        ([node("RMSNormalization", ["x", "g"], ["y"])], (2, 5, 8), 23, "nn.rms_norm"),
        (
            [node("InstanceNormalization", ["x", "g", "b"], ["y"])],
            (2, 8, 5),
            17,
            "nn.instance_norm",
        ),
        (
            [node("InstanceNormalization", ["x", "g", "b"], ["y"])],
            (2, 8, 4, 5),
            17,
            "nn.instance_norm",
        ),
        (
            [node("GroupNormalization", ["x", "g", "b"], ["y"], num_groups=4)],
            (2, 8, 4, 5),
            21,
            "nn.group_norm",
        ),
    ],
)
def test_norms_of_onnx(nodes, dims, opset, expected):
    scalars = {"two": np.array(2, "float32"), "epsilon": np.array(1e-5, "float32")}
    weights = {key: array for key, array in (LIKE_ONNX | scalars).items() if _reads(nodes, key)}
    mod, _ = normalized(import_onnx(model(nodes, {"x": dims}, {"y": None}, weights, opset)))
    assert operators(mod) == [expected]


def _reads(nodes: list[onnx.NodeProto], name: str) -> bool:
    return any(name in each.input for each in nodes)


def other_epsilon(net: Writer) -> relax.Var:
    """What is added to the variance is several numbers."""
    squares = net.emit("squares", relax.op.square(net.x))
    variance = net.emit("variance", relax.op.add(net.mean(squares), net.constant(12)))
    return net.emit("y", relax.op.divide(net.x, net.emit("root", relax.op.sqrt(variance))))


def large_bound(net: Writer) -> relax.Var:
    """A bound that rows may well reach is no epsilon."""
    return unit_rows(net, bound=0.1)


def other_mean(net: Writer) -> relax.Var:
    """What is divided lacks the mean along another axis than its divisor."""
    return net.emit("y", relax.op.divide(net.centred(1), net.root(net.centred(2), 2)))


def of_another_tensor(net: Writer) -> relax.Var:
    other = net.emit("other", relax.op.erf(net.x))
    return net.emit("y", relax.op.divide(other, net.root(net.x)))


def mean_read_alone(net: Writer) -> relax.Var:
    return net.emit("y", relax.op.divide(net.x, net.mean(net.x)))


def read_twice(net: Writer) -> relax.Var:
    """What a constant is added to has another reader."""
    norm = net.emit("norm", nn.layer_norm(net.x, net.constant(12), net.constant(12), [-1]))
    shifted = net.emit("shifted", relax.op.add(norm, net.constant(12)))
    return net.emit("y", relax.op.multiply(norm, shifted))


def shifted_rms(net: Writer) -> relax.Var:
    norm = net.emit("norm", nn.rms_norm(net.x, net.constant(12), [-1]))
    return net.emit("y", relax.op.add(norm, net.constant(12)))


def shifted_rows(net: Writer) -> relax.Var:
    """What is added is of rows, not of gamma's axis."""
    norm = net.emit("norm", nn.layer_norm(net.x, net.constant(12), net.constant(12), [-1]))
    return net.emit("y", relax.op.add(norm, net.constant(5, 1)))


@pytest.mark.parametrize(
    "written",
    [
        other_epsilon,
        large_bound,
        other_mean,
        of_another_tensor,
        mean_read_alone,
        read_twice,
        shifted_rms,
        shifted_rows,
        keras_of_the_mean_itself,
    ],
)
def test_others_stay(written, expect_rewrite):
    net = Writer(ROWS)
    mod = net.module(written(net))
    expect_rewrite(CanonicalizeNorm(), mod, mod)


@pytest.mark.parametrize("written", [by_sample_variance, reduced_first])
def test_the_variance_of_a_sample(written):
    _, after = rewritten(written, ROWS)
    ((_, call),) = dataflow.calls(after["main"])
    assert dataflow.operator(call) == "nn.layer_norm"
    assert abs(call.attrs.epsilon - 1e-5 * 11 / 12) < 1e-9


def test_another_axis_than_is_put_back(expect_rewrite):
    net = Writer((2, 5, 5))
    d = net.centred(1)
    squares = net.emit("squares", relax.op.multiply(d, d))
    mean = net.emit("mean", relax.op.mean(squares, [1], keepdims=False))
    variance = net.emit("variance", relax.op.reshape(mean, (2, 5, 1)))
    root = net.emit("root", relax.op.sqrt(net.emit("v", relax.op.add(variance, EPSILON))))
    mod = net.module(net.emit("y", relax.op.divide(d, root)))
    expect_rewrite(CanonicalizeNorm(), mod, mod)


def of_channels(net: Writer) -> relax.Var:
    """As LayerNorm2d of Segment Anything and of NAFNet."""
    d = net.centred(1)
    return net.scaled(net.emit("n", relax.op.divide(d, net.root(d, 1, square="power"))), 6, 1, 1)


def of_channels_tensorflow(net: Writer) -> relax.Var:
    mean, d = net.mean(net.x, 1), net.centred(1)
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(d, 1)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(6, 1, 1)))
    shift = relax.op.subtract(
        net.constant(6, 1, 1), net.emit("mg", relax.op.multiply(mean, factor))
    )
    product = net.emit("xg", relax.op.multiply(net.x, factor))
    return net.emit("y", relax.op.add(product, net.emit("shift", shift)))


def unit_channels(net: Writer) -> relax.Var:
    """As PyTorch's normalize along channels: descriptors of features."""
    squares = net.emit("squares", relax.op.multiply(net.x, net.x))
    total = net.emit("total", relax.op.sum(squares, [1], keepdims=True))
    root = net.emit("root", relax.op.sqrt(total))
    bound = net.emit("bound", relax.op.maximum(root, relax.const(np.float32(1e-12))))
    return net.emit("y", relax.op.divide(net.x, bound))


@pytest.mark.parametrize(
    ("written", "norm"),
    [
        (of_channels, "nn.layer_norm"),
        (of_channels_tensorflow, "nn.layer_norm"),
        (unit_channels, "nn.rms_norm"),
    ],
)
def test_norms_of_other_axes_than_the_last(written, norm):
    _, after = rewritten(written, IMAGE)
    assert operators(after) == ["permute_dims", norm, "permute_dims"]


def pixels_of_rows(net: Writer) -> relax.Var:
    """InstanceNorm of an image whose channels are last."""
    d = net.centred(1, 2)
    return net.scaled(net.emit("n", relax.op.divide(d, net.root(d, 1, 2))), 5)


def test_instance_norm_of_rows():
    _, after = rewritten(pixels_of_rows, IMAGE)
    assert operators(after) == ["permute_dims", "nn.instance_norm", "permute_dims"]


def wide_gamma_of_channels(net: Writer) -> relax.Var:
    d = net.centred(1)
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(d, 1)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(5, 12)))
    return net.emit("y", relax.op.multiply(d, factor))


def wide_gamma(net: Writer) -> relax.Var:
    d = net.centred()
    inverse = net.emit("inverse", relax.op.rsqrt(net.variance(d)))
    factor = net.emit("factor", relax.op.multiply(inverse, net.constant(5, 12)))
    return net.emit("y", relax.op.multiply(d, factor))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (wide_gamma_of_channels, "its gamma (5, 12) is not that of axes [1] of (2, 5, 12)"),
        (wide_gamma, "its gamma (5, 12) is not that of (2, 5, 12)"),
    ],
)
def test_declined(written, reason, expect_rewrite):
    net = Writer(ROWS)
    mod = net.module(written(net))
    with collecting_declined() as declined:
        expect_rewrite(CanonicalizeNorm(), mod, mod)
    assert [(found.name, found.reason) for found in declined] == [("y", reason)]


def test_a_root_mean_square_of_everything_stays(expect_rewrite):
    net = Writer(ROWS)
    mod = net.module(net.emit("y", relax.op.divide(net.x, net.root(net.x, 0, 1, 2))))
    expect_rewrite(CanonicalizeNorm(), mod, mod)


def test_normalizing_twice_changes_nothing():
    net = Writer(IMAGE)
    once, _ = normalized(net.module(groups(net)))
    twice, _ = normalized(once)
    tvm.ir.assert_structural_equal(once, twice)
