"""The reference of each specification, by numbers worked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from schedules.reference.kernels import reference
from schedules.spec import (
    MAGNITUDE,
    SIGNED,
    Binary,
    Bound,
    Concat,
    Conv2d,
    Dense,
    Dequantize,
    Move,
    Observe,
    Pool2d,
    Quantize,
    Rescale,
    Table,
)
from tests.schedules.any_layout_runs import f32, i32

pytestmark = pytest.mark.fast


def u8(*values) -> np.ndarray:
    return np.array(values, np.uint8)


def s8(*values) -> np.ndarray:
    return np.array(values, np.int8)


def image(*rows, dtype=np.uint8) -> np.ndarray:
    return np.array(rows, dtype)[None, None]


def test_conv2d_pads_with_the_zero_point():
    spec = Conv2d(
        batch=1, in_channels=1, height=2, width=2, out_channels=1, kernel=(3, 3), padding=(1,) * 4,
        x="uint8", y="int8",
    )  # fmt: skip
    params = {
        "w": np.arange(9, dtype=np.int8).reshape(1, 1, 3, 3),
        "bias": i32(10),
        "m": f32(0.25),
        "z": i32(1, -2, 0),
        "clamp": f32(-126, 8),
    }
    # x - z_x = [[1, 2], [3, 4]], taps 4 5 7 8 / 3 4 6 7 / 1 2 4 5 / 0 1 3 4; sums with bias
    # 4+10+21+32+10 = 77, 3+8+18+28+10 = 67, 1+4+12+20+10 = 47, 0+2+9+16+10 = 37;
    # a quarter: 19.25, 16.75, 11.75, 9.25, all clamped to 8, less 2.
    y = reference(spec, {"x": image([2, 3], [4, 5])}, params)
    np.testing.assert_array_equal(y, image([6, 6], [6, 6], dtype=np.int8))
    params["clamp"] = f32(-126, 126)
    y = reference(spec, {"x": image([2, 3], [4, 5])}, params)
    np.testing.assert_array_equal(y, image([17, 15], [10, 7], dtype=np.int8))


@pytest.mark.parametrize(("x", "expected"), [(10, 9), (0, 1)])
def test_conv2d_leaky_then_residual(x, expected):
    fields = {"batch": 1, "in_channels": 1, "height": 1, "width": 1, "out_channels": 1}
    spec = Conv2d(**fields, kernel=(1, 1), x="uint8", y="int8", residual="uint8", leaky=True)
    params = {
        "w": np.full((1, 1, 1, 1), 2, np.int8),
        "bias": i32(0),
        "m": f32(0.5),
        "m_neg": f32(0.25),
        "m_r": f32(1.5),
        "z": i32(4, 0, 7),
        "clamp": f32(-128, 127),
    }
    # acc = 12: 6 + 1.5 * 2 = 9; acc = -8: -2 + 3 = 1.
    y = reference(spec, {"x": image([x]), "r": image([9])}, params)
    assert y == expected


def test_grouped_and_dilated_conv2d():
    spec = Conv2d(
        batch=1, in_channels=2, height=1, width=3, out_channels=2, kernel=(1, 2), dilation=(1, 2),
        groups=2, x="int8", y="float32",
    )  # fmt: skip
    x = np.array([[[[1, 2, 3]], [[4, 5, 6]]]], np.int8)
    w = np.array([[[[1, 10]]], [[[2, -1]]]], np.int8)
    params = {"w": w, "bias": i32(0, 1), "m": f32(1, 0.5), "z": i32(0, 0, 0), "clamp": f32(-9, 99)}
    y = reference(spec, {"x": x}, params)
    np.testing.assert_array_equal(y.ravel(), f32(31, 1.5))  # 1 + 30; (8 - 6 + 1) / 2


def test_dense_float32_leaky():
    spec = Dense(rows=1, n=2, k=2, x="float32", y="float32", leaky=True)
    w = np.array([[1, 2], [3, -4]], np.float32)
    params = {"w": w, "bias": f32(1, 1), "alpha": f32(9, 0.5), "clamp": f32(-1.5, 5)}
    y = reference(spec, {"x": f32(1, 2)[None]}, params)
    np.testing.assert_array_equal(y, [[5, -1.5]])  # 6 clamped; (3 - 8 + 1) / 2 = -2 clamped


def test_pool2d():
    fields = {"batch": 1, "channels": 1, "height": 2, "width": 3, "out_size": (1, 2)}
    window = {"kernel": (2, 2), "strides": (2, 2), "padding": (0, 0)}
    x = image([1, 2, 3], [4, 5, -6], dtype=np.int8)
    spec = Pool2d(reduce="max", **fields, **window, x="int8", y="int8")
    np.testing.assert_array_equal(reference(spec, {"x": x}, {}).ravel(), [5, 3])
    spec = Pool2d(reduce="avg", **fields, **window, x="int8", y="int8")
    params = {"m": f32(0.25, 0.5).reshape(1, 2), "z": i32(1, 5), "clamp": f32(-100, 100)}
    # (0 + 1 + 3 + 4) / 4 = 2; (2 - 7) / 2 = -2.5 to -2.
    np.testing.assert_array_equal(reference(spec, {"x": x}, params).ravel(), [7, 3])


def test_max_pool2d_padding_never_wins():
    spec = Pool2d(
        reduce="max", batch=1, channels=1, height=1, width=1, out_size=(1, 1), kernel=(3, 3),
        strides=(1, 1), padding=(1, 1), x="int8", y="int8",
    )  # fmt: skip
    assert reference(spec, {"x": image([-100], dtype=np.int8)}, {}) == -100


def test_binary():
    fields = {"a_shape": (3,), "b_shape": (3,), "a": "uint8", "b": "int8", "y": "int8"}
    tensors = {"a": u8(10, 11, 255), "b": s8(0, 3, 127)}
    params = {"m_a": f32(0.5), "m_b": f32(2), "z": i32(10, -1, 3), "clamp": f32(-131, 124)}
    y = reference(Binary(operator="add", **fields), tensors, params)
    np.testing.assert_array_equal(y, [5, 11, 127])  # 2 + 3; 8.5 to 8, + 3; saturated
    y = reference(Binary(operator="max", **fields), tensors, params)
    np.testing.assert_array_equal(y, [5, 11, 127])  # 0 or 2; 0.5 or 8; saturated
    y = reference(Binary(operator="min", **fields), tensors, params | {"m_b": f32(-2)})
    np.testing.assert_array_equal(y, [1, -5, -128])  # 0 or -2; 0.5 or -8; 122.5 or -131
    params = {"m": f32(0.5), "z": i32(10, -1, 3), "clamp": f32(-131, 124)}
    y = reference(Binary(operator="mul", **fields), tensors, params)
    np.testing.assert_array_equal(y, [3, 5, 127])  # 0; 1 * 4 / 2; saturated
    params = {"m": f32(14), "z": i32(10, 3, 3), "clamp": f32(-131, 124)}
    y = reference(Binary(operator="div", **fields), tensors, params)
    np.testing.assert_array_equal(y, [3, 127, 31])  # 0 / -3; 1 / 0; 245 / 124 * 14 = 27.66
    y = reference(Binary(operator="rdiv", **fields), tensors, params)
    np.testing.assert_array_equal(y, [-128, 3, 10])  # -3 / 0; 0 / 1; 124 / 245 * 14 = 7.1


def test_bound():
    spec = Bound(operator="max", dims=(1, 2, 2), bound_shape=(1, 2, 1), x="uint8", y="int8")
    params = {"m": f32(0.5), "z": i32(8, -3), "clamp": f32(-125, 130), "bound": s8(0, -50)}
    y = reference(spec, {"x": u8(8, 20, 0, 255).reshape(1, 2, 2)}, params)
    np.testing.assert_array_equal(y.ravel(), [0, 3, -7, 121])  # -3 or 0, 3; -7, 123.5 to 124
    y = reference(replace(spec, operator="min"), {"x": u8(8, 20, 0, 255).reshape(1, 2, 2)}, params)
    np.testing.assert_array_equal(y.ravel(), [-3, 0, -50, -50])


def test_rescale():
    spec = Rescale(dims=(1, 2, 2), x="uint8", y="uint8", leaky=True)
    params = {"m": f32(0.5), "m_neg": f32(0.25, 1), "z": i32(8, 100), "clamp": f32(-5, 155)}
    y = reference(spec, {"x": u8(0, 18, 2, 255).reshape(1, 2, 2)}, params)
    np.testing.assert_array_equal(y.ravel(), [98, 105, 95, 224])  # -2; 5; -6 clamped; 123.5 to 124


def test_table_of_int8_begins_at_minus_128():
    table = np.arange(256).astype(np.uint8)
    y = reference(Table(dims=(3,), x="int8", y="uint8"), {"x": s8(-128, 0, 127)}, {"table": table})
    np.testing.assert_array_equal(y, [0, 128, 255])


def test_quantize_and_dequantize():
    params = {"s": f32(0.5), "z": i32(-3), "clamp": f32(-125, 130)}
    x = f32(0.25, 0.75, -0.25, 1e30, -1e30, -62.5)
    y = reference(Quantize(dims=(6,), y="int8"), {"x": x}, params)
    np.testing.assert_array_equal(y, [-3, -1, -3, 127, -128, -128])
    y = reference(Dequantize(dims=(2,), x="int8"), {"x": s8(-3, 127)}, params)
    np.testing.assert_array_equal(y, f32(0, 65))


def test_concat():
    spec = Concat(shapes=((1, 1), (1, 2)), axis=1, x="int8")
    y = reference(spec, {"x0": s8(1)[None], "x1": s8(2, 3)[None]}, {})
    np.testing.assert_array_equal(y, [[1, 2, 3]])


@pytest.mark.parametrize(
    ("move", "y_shape", "arguments", "expected"),
    [
        ("copy", (2, 3), (), [[0, 1, 2], [3, 4, 5]]),
        ("reshape", (3, 2), (), [[0, 1], [2, 3], [4, 5]]),
        ("transpose", (3, 2), (1, 0), [[0, 3], [1, 4], [2, 5]]),
        ("slice", (1, 2), (1, 0, 1, 2), [[3, 5]]),
        ("edge", (4, 5), (1, 0), [[0, 1, 2, 2, 2], [0, 1, 2, 2, 2], *[[3, 4, 5, 5, 5]] * 2]),
        ("reflect", (3, 6), (1, 2), [[5, 4, 3, 4, 5, 4], [2, 1, 0, 1, 2, 1], [5, 4, 3, 4, 5, 4]]),
        ("pad", (3, 5), (1, 2), [[9] * 5, [9, 9, 0, 1, 2], [9, 9, 3, 4, 5]]),
    ],
)
def test_move(move, y_shape, arguments, expected):
    spec = Move(move=move, x_shape=(2, 3), y_shape=y_shape, arguments=arguments, x="int8")
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(reference(spec, {"x": x}, {"fill": s8(9)}), expected)


def test_resize_takes_the_floor():
    spec = Move(move="resize", x_shape=(1, 1, 2, 3), y_shape=(1, 1, 3, 2), x="uint8")
    y = reference(spec, {"x": image([0, 1, 2], [3, 4, 5])}, {})
    np.testing.assert_array_equal(y, image([0, 1], [0, 1], [3, 4]))  # rows 0 0 1, columns 0 1


def test_observe():
    x = f32(-1, 2, np.nan, np.inf, 0.5)
    y = reference(Observe(statistic="range", dims=(5,)), {"x": x}, {})
    np.testing.assert_array_equal(y, f32(-1, 2, 2))
    spec = Observe(statistic="histogram", dims=(5,), bins=4)
    params = {"low": f32(0), "inverse": f32(2), "mask": np.int32([SIGNED])}
    np.testing.assert_array_equal(reference(spec, {"x": x}, params), [1, 1, 0, 1])
    params["mask"] = np.int32([MAGNITUDE])
    np.testing.assert_array_equal(reference(spec, {"x": x}, params), [0, 1, 1, 1])
