"""The integer oracle: each operator on numbers worked by hand, most scales powers of two."""

import ast
from pathlib import Path

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

from tests.oracle.operators import window_counts
from tests.qdq_builder import QdqBuilder
from tests.reference import output_names, run

S8, U8 = np.int8, np.uint8
pytestmark = pytest.mark.fast


def quantized(net, y, inputs, s, z=0, dtype="int8", **kwargs):
    """Quantize ``y`` (q = real / s + z) and return its integers."""
    y = y if isinstance(y, relax.Var) else net.emit("y", y)
    result = net.quantized(y, s, z, dtype, name="y", **kwargs)
    return run(net.module(result), net.feed(inputs))["y:q"]


def image(*rows, dtype=S8):
    return np.array(rows, dtype)[None, None]


# Convolution, dense: x in steps of 0.5 from 2, w in steps of 0.25, so acc in steps of 0.125.

STEPS = ((0, 1), (2, 4))  # q - 2
KERNEL = [[[[0.25, -0.5], [1.0, 0.0]]]]  # q = 1, -2; 4, 0
ACC = (0, 0, 4), (0, 6, 17), (-4, -6, 4)  # of the 2x2 image padded by one zero


def small_conv(bias=None, w=KERNEL):
    net = QdqBuilder()
    x = net.integers("x", (1, 1, 2, 2), 0.5, 2, "uint8")
    q = image(*STEPS, dtype=U8) + U8(2)
    return net, net.conv("c", x, w, 0.25, bias, padding=1), {"x": q}


def test_conv2d_pads_with_the_zero_point_and_rounds_half_to_even():
    net, c, inputs = small_conv(bias=[0.3125])  # 2.5 steps: rounds to 2
    # t = (acc + 2) / 2, y = rint(t) - 1
    t = np.array([[1, 1, 3], [1, 4, 10], [-1, -2, 3]])  # 9.5 -> 10
    np.testing.assert_array_equal(quantized(net, c, inputs, 0.25, -1)[0, 0], t - 1)


def test_conv2d_relu_is_a_clamp_at_the_zero_point():
    net, c, inputs = small_conv()
    t = np.array([[0, 0, 2], [0, 3, 8], [0, 0, 2]])  # 8.5 -> 8
    np.testing.assert_array_equal(quantized(net, R.nn.relu(c), inputs, 0.25, -1)[0, 0], t - 1)


@pytest.mark.parametrize("form", ["clip", "min(max)"])
def test_clip_bounds_are_rounded_to_steps_of_y(form):
    net, c, inputs = small_conv()
    if form == "clip":
        y = R.clip(c, -0.375, 1.125)
    else:
        bounds = [relax.const(np.float32(bound)) for bound in (-0.375, 1.125)]
        y = R.minimum(bounds[1], net.emit("floor", R.maximum(c, bounds[0])))
    expected = [[0, 0, 2], [0, 3, 4], [-2, -2, 2]]  # -0.375 / 0.25 -> -2, 1.125 / 0.25 = 4.5 -> 4
    np.testing.assert_array_equal(quantized(net, y, inputs, 0.25)[0, 0], expected)


def test_conv2d_saturates_to_its_range():
    net, c, inputs = small_conv()
    y = quantized(net, c, inputs, 2.0**-5, qrange=(-15, 60))  # t = 4 acc
    np.testing.assert_array_equal(y[0, 0], [[0, 0, 16], [0, 24, 60], [-15, -15, 16]])


def test_each_channel_has_its_own_scale_bias_and_slope():
    net = QdqBuilder()
    x = net.integers("x", (1, 1, 1, 3), 1.0)
    c = net.conv("c", x, np.ones((2, 1, 1, 1)), [1.0, 0.5], [0.0, 1.25])  # w = 1, 2; b = 0, 2.5
    y = R.nn.prelu(c, relax.const(np.array([0.5, -0.25], np.float32)))
    q = quantized(net, y, {"x": image([-5, 0, 3])}, 0.5)
    # channel 0: acc -5, 0, 3, M = 2, 1 below zero; channel 1: acc -8, 2, 8, M = 1, -0.25 below.
    np.testing.assert_array_equal(q[0], [[[-5, 0, 6]], [[2, 2, 8]]])


@pytest.mark.parametrize(
    ("alpha", "acc", "expected"),
    [
        (2.5, -123, -102),  # 2.5 / 3 gives the tie -102.5; 2.5 * float32(1 / 3) is past it
        (0.3, -125, -12),  # 0.1 gives the tie -12.5; 0.3 * float32(1 / 3) is past it
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_leaky_multiplier_is_rounded_once_from_float64(alpha, acc, expected, alone):
    net = QdqBuilder()
    x = net.integers("x", (1, 1, 1, 2), 1.0)
    y = R.nn.leakyrelu(x if alone else net.conv("c", x, [[[[1.0]]]], 1.0), alpha)
    y = quantized(net, y, {"x": image([acc, -acc])}, 3.0)
    np.testing.assert_array_equal(y[0, 0, 0], [expected, -acc // 3 + (-acc % 3 == 2)])


def test_weights_are_clamped_to_their_range():
    net, c, inputs = small_conv(w=[[[[-99.0, 99.0], [0.0, 0.0]]]])
    mod = net.module(net.quantized(c, 1.0))
    np.testing.assert_array_equal(run(mod, net.feed(inputs))["c:w:q"][0, 0], [[-127, 127], [0, 0]])


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_conv2d_of_any_geometry_equals_plain_loops(groups):
    rng = np.random.default_rng(3)
    at = {"strides": [2, 1], "padding": [1, 2, 0, 1], "dilation": [1, 2], "groups": groups}
    x = rng.integers(-128, 128, (2, 6, 5, 7))
    w = rng.integers(-127, 128, (12, 6 // groups, 3, 2))
    net = QdqBuilder()
    view = net.integers("x", ("n", 6, 5, 7), 1.0, -3)
    y = net.conv("c", view, w, 1.0, **at)
    actual = run(net.module(y), net.feed({"x": x}))["c"]
    expected = np.zeros_like(actual)
    padded = np.pad(x + 3, ((0, 0), (0, 0), (1, 0), (2, 1)))
    for n, o, i, j in np.ndindex(*expected.shape):
        first = o // (12 // groups) * (6 // groups)
        for c, a, b in np.ndindex(*w.shape[1:]):
            expected[n, o, i, j] += padded[n, first + c, 2 * i + a, j + 2 * b] * w[o, c, a, b]
    np.testing.assert_array_equal(actual, expected)


def test_dense_keeps_leading_axes():
    net = QdqBuilder()
    x = net.integers("x", (1, 2, 3), 0.5, 1)
    w = [[0.25, -0.5], [0.5, 0.0], [0.0, 0.25]]  # (k, n): q = 1, -2; 2, 0; 0, 1
    y = R.nn.relu(net.dense("d", x, w, 0.25, [0.0, 0.1875]))  # bias 0, 1.5 -> 2
    q = np.array([[[2, 3, 5], [1, 0, -4]]], S8)  # steps 1, 2, 4; 0, -1, -5
    # acc: 1 + 4, -2 + 4 + 2; -2, -5 + 2; M = 1/2
    expected = [[[2, 2], [0, 0]]]  # 2.5 -> 2
    np.testing.assert_array_equal(quantized(net, y, {"x": q}, 0.25), expected)


def test_a_bias_may_itself_be_dequantized():
    net, c, inputs = small_conv()
    b = relax.const(np.array([2], np.int32).reshape(1, 1, 1, 1))
    b = net.emit("b", R.dequantize(b, relax.const(np.float32(0.125)), relax.const(np.int32(0))))
    y = quantized(net, R.add(b, c), inputs, 0.125)
    np.testing.assert_array_equal(y[0, 0], np.array(ACC) + 2)


def test_conv2d_without_quantize_is_one_float32_product():
    net, c, inputs = small_conv(bias=[0.3125])
    outputs = run(net.module(net.emit("y", R.nn.relu(c))), net.feed(inputs))
    expected = np.maximum(np.array(ACC) + 2, 0) * np.float32(0.125)
    np.testing.assert_array_equal(outputs["y"][0, 0], expected.astype(np.float32))
    assert outputs["y"].dtype == np.float32
    assert "c" not in outputs  # the sum without bias exists nowhere


def test_an_accumulator_that_could_leave_int32_is_refused():
    net = QdqBuilder()
    k = 66312  # 255 * 127 * 66312 = 2**31 + 30472... while one less fits
    for channels, fits in ((k - 1, True), (k, False)):
        net = QdqBuilder()
        x = net.integers("x", (1, channels), 1.0, 0, "uint8")
        mod = net.module(net.dense("d", x, np.full((channels, 1), 127), 1.0))
        inputs = {"x": np.full((1, channels), 255, U8)}
        if fits:
            assert run(mod, net.feed(inputs))["d"] == np.float32(255 * 127 * channels)
        else:
            with pytest.raises(OverflowError, match="channel 0 may reach 2147514120"):
                run(mod, net.feed(inputs))


def test_a_multiplier_that_is_not_finite_is_refused():
    net = QdqBuilder()
    y = R.nn.relu(net.integers("x", (1,), 1e30))
    with pytest.raises(ValueError, match="not finite"):
        quantized(net, y, {"x": np.zeros(1, S8)}, 1e-30)


# Additions: M_a = 1/2, M_b = float32(1/3), which times 123 is 41 + 41 * 2**-25.
# -81 / 2 + 41 is the tie 0.5; with one rounding the sum is above it, with two it is the tie.


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_residual_is_added_to_a_convolution_by_one_fma(order):
    net = QdqBuilder()
    x, r = net.integers("x", (1, 1, 1, 1), 3.0), net.integers("r", (1, 1, 1, 1), 1.0, 2)
    c = net.conv("c", x, [[[[-0.5]]]], 0.5)  # w = -1, M = 3 * 0.5 / 3
    y = R.add(*((c, r)[i] for i in order))
    inputs = {"x": image([81]), "r": image([125])}
    assert quantized(net, y, inputs, 3.0, 7) == 1 + 7


def test_a_convolution_that_something_else_reads_takes_no_residual():
    net = QdqBuilder()
    x, r = net.integers("x", (1, 1, 1, 1), 3.0), net.integers("r", (1, 1, 1, 1), 1.0, 2)
    c = net.conv("c", x, [[[[-0.5]]]], 0.5)
    y = net.quantized(net.emit("y", R.add(c, r)), 3.0, 7)
    outputs = run(net.module(y, c), net.feed({"x": image([81]), "r": image([125])}))
    assert outputs["c"] == np.float32(-81 * 1.5)
    assert outputs["y:q"] == 0 + 7  # a float island: (123 - 121.5) / 3, the tie itself


def test_residual_of_a_leaky_convolution():
    net = QdqBuilder()
    x, r = net.integers("x", (1, 1, 1, 2), 1.0), net.integers("r", (1, 1, 1, 2), 0.5)
    c = net.conv("c", x, [[[[1.0]]]], 1.0)
    y = R.add(net.emit("leaky", R.nn.leakyrelu(c, 0.25)), r)
    inputs = {"x": image([-10, 10]), "r": image([8, 8])}  # -2.5 + 4, 10 + 4
    np.testing.assert_array_equal(quantized(net, y, inputs, 1.0)[0, 0, 0], [2, 14])


@pytest.mark.parametrize(("order", "expected"), [("ab", 1), ("ba", 0)])
def test_add_rounds_the_product_of_its_first_operand(order, expected):
    net = QdqBuilder()
    scales = {"a": 1.5, "b": 1.0}
    views = {name: net.integers(name, (1,), scales[name]) for name in order}
    inputs = {"a": np.array([-81], S8), "b": np.array([123], S8)}
    assert quantized(net, R.add(*(views[name] for name in order)), inputs, 3.0) == expected


def test_the_broadcast_operand_of_add_is_the_fmas():
    net = QdqBuilder()
    b, a = net.integers("b", (1, 1), 1.0), net.integers("a", (1, 2), 1.5)
    inputs = {"a": np.array([[-81, -83]], S8), "b": np.array([[123]], S8)}
    np.testing.assert_array_equal(quantized(net, R.add(b, a), inputs, 3.0), [[1, 0]])  # -0.5 + e


def test_add_then_relu():
    net = QdqBuilder()
    a, b = net.integers("a", (4,), 0.5, 1), net.integers("b", (4,), 0.25, 0, "uint8")
    q = {"a": np.array([1, 2, -9, 127], S8), "b": np.array([0, 3, 2, 255], U8)}
    # reals 0, 0.5, -5, 63; 0, 0.75, 0.5, 63.75; in halves: 0, 2.5, -9, 253.5
    y = quantized(net, R.nn.relu(net.emit("sum", R.add(a, b))), q, 0.5, 5, "uint8")
    np.testing.assert_array_equal(y, [5, 7, 5, 255])


@pytest.mark.parametrize(
    ("pair", "t"),
    [
        (True, [1.5 + 2 * 4, 3.0 + 3 * 4]),  # 6 / 4 = 1.5 -> 2
        (False, [7.5, 15.0]),  # a float island: added unrounded
    ],
)
def test_two_convolutions_are_added_where_one_has_a_quantize(pair, t):
    net = QdqBuilder()
    x = net.integers("x", (1, 1, 1, 2), 1.0)
    left = net.conv("left", x, [[[[0.5]]]], 0.5)
    right = net.conv("right", x, [[[[2.0]]]], 2.0)
    right = net.quantized(right, 4.0) if pair else right
    y = quantized(net, R.add(left, right), {"x": image([3, 6])}, 1.0)
    np.testing.assert_array_equal(y[0, 0, 0], np.rint(t))


# Other arithmetic.


def test_mul():
    net = QdqBuilder()
    a, b = net.integers("a", (3,), 0.5, 1), net.integers("b", (3,), 0.25, 0, "uint8")
    q = {"a": np.array([4, -3, 127], S8), "b": np.array([5, 5, 255], U8)}
    y = quantized(net, R.multiply(a, b), q, 0.25)  # M = 1/2: 7.5, -10, 16065
    np.testing.assert_array_equal(y, [8, -10, 127])


def test_concat_rescales_what_differs_from_its_output():
    net = QdqBuilder()
    a, b = net.integers("a", (3,), 0.5, 1), net.integers("b", (2,), 0.25, 0, "uint8")
    q = {"a": np.array([4, -128, 127], S8), "b": np.array([5, 255], U8)}
    y = quantized(net, R.concat((a, b, a)), q, 0.5, 1)
    np.testing.assert_array_equal(y, [4, -128, 127, 3, 127, 4, -128, 127])  # 2.5 -> 2, plus 1


@pytest.mark.parametrize(
    ("attrs", "expected"),
    [
        # 1 2 3; 4 5 6; 7 8 9: windows of 2x2 in steps of 2, the last ones cut short
        ({"ceil_mode": True}, [[3, 4], [8, 9]]),  # 12/4, 9/2 = 4.5, 15/2 = 7.5, 9
        ({"padding": 1, "count_include_pad": True}, [[0, 1], [3, 7]]),  # 1/4, 5/4, 11/4, 28/4
        ({"padding": 1, "count_include_pad": False}, [[1, 2], [6, 7]]),  # 1, 5/2, 11/2, 28/4
    ],
)
def test_avg_pool2d_divides_each_window_by_what_it_counts(attrs, expected):
    net = QdqBuilder()
    y = R.nn.avg_pool2d(net.integers("x", (1, 1, 3, 3), 1.0, -5), [2, 2], [2, 2], **attrs)
    q = image((1, 2, 3), (4, 5, 6), (7, 8, 9)) - S8(5)
    np.testing.assert_array_equal(quantized(net, y, {"x": q}, 1.0, 10)[0, 0], np.add(expected, 10))


def test_window_counts_leave_out_what_hangs_over():
    # 4 positions, padded by one: windows of 3 start at -1, 1, 3 and the last ends past the padding.
    at = {"pool_size": (3, 3), "strides": (2, 2), "dilation": (1, 1), "padding": (1, 1, 1, 1)}
    at |= {"ceil_mode": True, "layout": "NCHW"}
    x = np.zeros((1, 1, 4, 4))
    padded = window_counts(x, **at, count_include_pad=True)
    np.testing.assert_array_equal(padded, np.outer([3, 3, 2], [3, 3, 2]))
    inside = window_counts(x, **at, count_include_pad=False)
    np.testing.assert_array_equal(inside, np.outer([2, 3, 1], [2, 3, 1]))


def test_a_window_that_would_begin_in_the_padding_behind_is_none():
    # 8 positions, padded by one: windows of 2 start at -1, 2, 5; the one at 8 would see no position.
    at = {"pool_size": (2, 2), "strides": (3, 3), "dilation": (1, 1), "padding": (1, 1, 1, 1)}
    at |= {"ceil_mode": True, "layout": "NCHW"}
    x = np.zeros((1, 1, 8, 8))
    for include_pad, inside in ((True, [2, 2, 2]), (False, [1, 2, 2])):
        counts = window_counts(x, **at, count_include_pad=include_pad)
        np.testing.assert_array_equal(counts, np.outer(inside, inside))


@pytest.mark.parametrize("form", ["mean", "adaptive"])
def test_global_average(form):
    net = QdqBuilder()
    x = net.integers("x", (1, 2, 1, 3), 0.5)
    y = R.mean(x, [2, 3], True) if form == "mean" else R.nn.adaptive_avg_pool2d(x, [1, 1])
    q = np.array([[[[1, 2, 4]], [[-1, -2, -127]]]], S8)
    m = np.float32(0.5 / (np.float64(np.float32(0.1)) * 3))
    expected = [np.rint(np.float32(7) * m), -128]  # 11.67, -216.7
    np.testing.assert_array_equal(quantized(net, y, {"x": q}, 0.1).reshape(-1), expected)


def test_adaptive_average_windows_overlap_where_sizes_do_not_divide():
    net = QdqBuilder()
    y = R.nn.adaptive_avg_pool2d(net.integers("x", (1, 1, 1, 5), 1.0), [1, 2])
    y = quantized(net, y, {"x": image([1, 2, 6, 8, 30])}, 1.0)  # 9 / 3, 44 / 3
    np.testing.assert_array_equal(y[0, 0, 0], [3, 15])


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("rescale", [-8, -2, 0, 2, 2, 8]),  # halves: -8, -1.5, 0, 1.5, 2.5, 8
        ("relu", [0, 0, 0, 2, 2, 8]),
        ("clip", [-2, -2, 0, 2, 2, 2]),  # 0.6 / 0.25 = 2.4
        ("leaky", [-2, 0, 0, 2, 2, 8]),  # a quarter: -2, -0.375
        ("leaky relu6", [-2, 0, 0, 2, 2, 4]),
    ],
)
def test_an_activation_alone_is_a_rescale(op, expected):
    net = QdqBuilder()
    x = net.integers("x", (6,), 0.125, 3)
    forms = {
        "rescale": lambda: R.reshape(x, (6,)),
        "relu": lambda: R.nn.relu(x),
        "clip": lambda: R.clip(x, -0.6, 0.6),
        "leaky": lambda: R.nn.leakyrelu(x, 0.25),
        "leaky relu6": lambda: R.clip(net.emit("leaky", R.nn.leakyrelu(x, 0.25)), -9, 1),
    }
    q = np.array([-16, -3, 0, 3, 5, 16], S8) + S8(3)
    np.testing.assert_array_equal(quantized(net, forms[op](), {"x": q}, 0.25), expected)


def test_prelu_alone_has_a_slope_per_channel():
    net = QdqBuilder()
    x = net.integers("x", (1, 2, 1, 2), 1.0)
    y = R.nn.prelu(x, relax.const(np.array([0.5, 0.25], np.float32)))
    q = np.array([[[[-5, 5]], [[-10, 10]]]], S8)
    expected = [-2, 5, -2, 10]  # -2.5, -2.5
    np.testing.assert_array_equal(quantized(net, y, {"x": q}, 1.0).reshape(-1), expected)


# Tables.


def test_sigmoid_is_a_table():
    net = QdqBuilder()
    y = R.sigmoid(net.integers("x", (5,), 0.5, 1))
    q = np.array([-128, -1, 1, 3, 127], S8)  # -64.5, -1, 0, 1, 63
    y = quantized(net, y, {"x": q}, 1 / 256, 0, "uint8")
    np.testing.assert_array_equal(y, [0, 69, 128, 187, 255])  # 68.8, 128, 187.2


def test_a_composed_function_of_one_tensor_is_one_table():
    net = QdqBuilder()
    x = net.integers("x", (6,), 0.5)
    shifted = net.emit("shifted", R.add(x, relax.const(np.float32(3))))
    gate = net.emit("gate", R.clip(shifted, 0, 6))
    scaled = net.emit("scaled", R.multiply(x, gate))
    y = R.divide(scaled, relax.const(np.float32(6)))  # hardswish
    q = np.array([-100, -6, -3, 1, 3, 100], S8)  # -50, -3, -1.5, 0.5, 1.5, 50
    y = quantized(net, y, {"x": q}, 0.125)  # 0, 0, -3, 2.33, 9, 400
    np.testing.assert_array_equal(y, [0, 0, -3, 2, 9, 127])


def test_a_table_that_is_not_finite_is_refused():
    net = QdqBuilder()
    y = R.log(net.integers("x", (1,), 1.0, 0, "uint8"))
    with pytest.raises(ValueError, match="y: the table is -inf at integer 0"):
        quantized(net, y, {"x": np.ones(1, U8)}, 1.0)


# Moves: with equal parameters the integers are the same ones.

X = np.arange(-8, 8).reshape(1, 2, 2, 4)
MOVES = {
    "reshape": (lambda x: R.reshape(x, (1, 16)), X.reshape(1, 16)),
    "permute_dims": (lambda x: R.permute_dims(x, [0, 2, 3, 1]), X.transpose(0, 2, 3, 1)),
    "strided_slice": (
        lambda x: R.strided_slice(x, axes=[1, 3], begin=[1, 0], end=[2, 4], strides=[1, 2]),
        X[:, 1:2, :, 0:4:2],
    ),
    "squeeze": (lambda x: R.squeeze(x, [0]), X[0]),
    "expand_dims": (lambda x: R.expand_dims(x, [0]), X[None]),
    "pad": (
        lambda x: R.nn.pad(x, [0, 0, 0, 0, 1, 0, 0, 2]),
        np.pad(X, ((0, 0), (0, 0), (1, 0), (0, 2)), constant_values=3),
    ),
    "resize2d": (
        lambda x: R.image.resize2d(
            x,
            (3, 6),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        X[:, :, [0, 0, 1]][..., [0, 0, 1, 2, 2, 3]],
    ),
    "max_pool2d": (
        lambda x: R.nn.max_pool2d(x, [2, 3], [1, 2], padding=[0, 1, 0, 1]),
        X[:, :, 1:, [1, 3]],  # the bottom right of a rising image; padding never wins
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves_move_integers(name):
    move, expected = MOVES[name]
    net = QdqBuilder()
    y = quantized(net, move(net.integers("x", X.shape, 0.3, 3)), {"x": X.astype(S8)}, 0.3, 3)
    np.testing.assert_array_equal(y, expected)


def test_a_move_to_another_scale_rescales():
    net = QdqBuilder()
    y = R.nn.max_pool2d(net.integers("x", (1, 1, 1, 4), 0.5, -1), [1, 2], [1, 2])
    y = quantized(net, y, {"x": image([-4, -6, 4, 126])}, 1.0, 2)  # -1.5 -> -2, 63.5 -> 64
    np.testing.assert_array_equal(y[0, 0, 0], [0, 66])


def test_parts_of_a_split():
    net = QdqBuilder()
    x = net.integers("x", (1, 6), 1.0)
    parts = net.emit("parts", R.split(x, [1, 4], axis=1))
    items = [net.emit(f"part{i}", relax.TupleGetItem(parts, i)) for i in range(3)]
    mod = net.module(*(net.quantized(item, 1.0) for item in items))
    outputs = run(mod, net.feed({"x": np.arange(6)[None]}))
    for i, expected in enumerate(([0], [1, 2, 3], [4, 5])):
        np.testing.assert_array_equal(outputs[f"part{i}:q"][0], expected)


def test_moves_may_stand_between_an_operator_and_its_quantize():
    net = QdqBuilder()
    mean = net.emit("mean", R.mean(net.integers("x", (1, 1, 1, 3), 1.0), [2, 3], True))
    y = quantized(net, R.reshape(mean, (1, 1)), {"x": image([1, 2, 2])}, 0.5)  # 10/3
    np.testing.assert_array_equal(y, [[3]])


# Float islands, names, whole graphs.


def island():
    net = QdqBuilder()
    x = net.quantized(net.input("x", ("n", 2)), 1.0)
    p = net.emit("p", R.nn.softmax(x, axis=1))
    y = net.emit("y", R.negative(net.quantized(p, 1 / 256, 0, "uint8")))
    return net.module(net.quantized(y, 1 / 128))


def test_softmax_is_a_float_island():
    tensors = run(island(), {"x": np.array([[0.4, -0.3], [1.2, 0.0]], np.float32)})
    np.testing.assert_array_equal(tensors["x:q"], [[0, 0], [1, 0]])
    np.testing.assert_allclose(tensors["p"], [[0.5, 0.5], [0.7310586, 0.2689414]], rtol=1e-6)
    np.testing.assert_array_equal(tensors["p:q"], [[128, 128], [187, 69]])
    np.testing.assert_array_equal(tensors["y:q"], [[-64, -64], [-94, -34]])  # -93.5, -34.5


def test_given_tensors_replace_the_computed_ones():
    given = {"p": np.array([[0.25, 0.75]], np.float32)}
    tensors = run(island(), {"x": np.zeros((1, 2), np.float32)}, given=given)
    np.testing.assert_array_equal(tensors["y:q"], [[-32, -96]])
    with pytest.raises(ValueError, match=r"\['q'\] are not in the module"):
        run(island(), {"x": np.zeros((1, 2), np.float32)}, given={"q": np.zeros(1)})


def test_integer_inputs_are_taken_as_they_are():
    net = QdqBuilder()
    x = net.input("x", (2,), "uint8")
    s_z = relax.const(np.float32(0.5)), relax.const(np.uint8(4))
    y = net.emit("y", R.nn.relu(net.emit("x:dq", R.dequantize(x, *s_z))))
    tensors = run(net.module(net.quantized(y, 0.25)), {"x": np.array([3, 9], U8)})
    np.testing.assert_array_equal(tensors["y:q"], [0, 10])


def test_outputs_are_named_in_their_order():
    net = QdqBuilder()
    x = net.input("x", ("n", 2))
    parts = [net.emit(name, R.negative(x)) for name in ("late", "early")]
    assert output_names(net.module(*parts, x), {"x": np.zeros((1, 2))}) == ["late", "early", "x"]


def test_unknown_operators_and_wrong_inputs_are_refused():
    net = QdqBuilder()
    mod = net.module(net.emit("y", R.tan(net.input("x", (2,)))))
    with pytest.raises(NotImplementedError, match="operator tan"):
        run(mod, {"x": np.zeros(2, np.float32)})
    with pytest.raises(ValueError, match="shape"):
        run(mod, {"x": np.zeros(3, np.float32)})
    with pytest.raises(ValueError, match=r"\['x', 'z'\] are missing or unknown"):
        run(mod, {"z": np.zeros(2, np.float32)})


def test_it_shares_no_code_with_what_it_judges():
    here = Path(__file__).parent
    files = [here / "reference.py", *(here / "oracle").glob("[!t]*.py")]
    assert len(files) >= 6
    roots = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                roots |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                roots.add("relative" if node.level else str(node.module).split(".")[0])
    standard = {"__future__", "collections", "dataclasses", "fractions", "functools", "json"}
    assert roots <= standard | {"math", "operator", "typing", "numpy", "tests", "tvm"}
