"""The integer oracle's other operators: arithmetic, tables, moves, by numbers worked by hand."""

import numpy as np
import pytest
from tvm import relax
from tvm.relax import op as R

from tests.oracle.operators import window_counts
from tests.qdq_builder import QdqBuilder
from tests.reference import run
from tests.run_quantized import image, quantized

S8, U8 = np.int8, np.uint8
pytestmark = pytest.mark.fast


# Arithmetic.


def test_mul():
    net = QdqBuilder()
    a, b = net.integers("a", (3,), 0.5, 1), net.integers("b", (3,), 0.25, 0, "uint8")
    q = {"a": np.array([4, -3, 127], S8), "b": np.array([5, 5, 255], U8)}
    y = quantized(net, R.multiply(a, b), q, 0.25)  # M = 1/2: 7.5, -10, 16065
    np.testing.assert_array_equal(y, [8, -10, 127])


def test_a_subtrahend_is_the_operand_of_the_fma():
    net = QdqBuilder()
    a, b = net.integers("a", (3,), 0.5, 1), net.integers("b", (3,), 0.25, 0, "uint8")
    q = {"a": np.array([4, -3, 127], S8), "b": np.array([5, 5, 255], U8)}
    y = quantized(net, R.subtract(a, b), q, 0.5, 2)  # 3 - 2.5, -4 - 2.5, 126 - 127.5
    np.testing.assert_array_equal(y, [2, -4, 0])


def test_what_is_subtracted_from_a_broadcast_tensor_comes_first():
    net = QdqBuilder()
    a, b = net.integers("a", (1, 1), 1.0), net.integers("b", (1, 3), 0.5)
    q = {"a": np.array([[10]], S8), "b": np.array([[1, 2, 40]], S8)}
    y = quantized(net, R.subtract(a, b), q, 1.0)  # 9.5, 9, -10
    np.testing.assert_array_equal(y, [[10, 9, -10]])


@pytest.mark.parametrize(("op", "expected"), [("maximum", [8, 4, 127]), ("minimum", [3, -3, 127])])
def test_extremes_are_of_integers(op, expected):
    net = QdqBuilder()
    a, b = net.integers("a", (3,), 0.5, 1), net.integers("b", (3,), 0.25, 0, "uint8")
    q = {"a": np.array([7, -3, 127], S8), "b": np.array([5, 5, 255], U8)}
    y = quantized(net, getattr(R, op)(a, b), q, 0.5, 2 if op == "maximum" else 1)
    np.testing.assert_array_equal(y, expected)


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


def test_constants_by_channel_are_a_depthwise_convolution():
    net = QdqBuilder()
    x = net.integers("x", (1, 2, 1, 2), 0.5, 1)
    factor, summand = (np.array(pair, np.float32).reshape(2, 1, 1) for pair in ([2, -1], [1, 0.5]))
    scaled = net.emit("scaled", R.multiply(x, relax.const(factor)))
    y = net.emit("y", R.add(relax.const(summand), scaled))
    q = np.array([[[[4, -3]], [[3, 127]]]], S8)  # 1.5, -2; 1, 63
    y = quantized(net, y, {"x": q}, 0.5)  # 4, -3; -0.5, -62.5
    np.testing.assert_array_equal(y.reshape(-1), [8, -6, -1, -125])


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


def test_a_square_is_a_table():
    """229.49999: a float32 multiplier would make 229.5 of it, and then 230."""
    net = QdqBuilder()
    x = net.integers("x", (2,), 0.010256477631628513, 0, "uint8")
    y = quantized(
        net, R.multiply(x, x), {"x": np.array([1, 255], U8)}, 0.029805345460772514, 0, "uint8"
    )
    np.testing.assert_array_equal(y, [0, 229])


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
