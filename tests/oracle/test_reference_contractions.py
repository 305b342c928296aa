"""The integer oracle's convolutions, dense layers and additions, by numbers worked by hand."""

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

from tests.qdq_builder import QdqBuilder
from tests.reference import run
from tests.run_quantized import image, quantized

S8, U8 = np.int8, np.uint8
pytestmark = pytest.mark.fast


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
