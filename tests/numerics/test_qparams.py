"""Parameters of integer tensors, by tables of numbers worked by hand."""

import numpy as np
import pytest

from relay_int8.errors import CalibrationError, UnsupportedOpError
from relay_int8.numerics import qparams
from relay_int8.numerics.multipliers import float_multiplier
from relay_int8.numerics.qparams import QParams

F = np.float32
pytestmark = pytest.mark.fast


def u8(scale, zero_point=0):
    return QParams(F(scale), zero_point, 0, 255, "uint8")


def s8(scale):
    return QParams(F(scale), 0, -127, 127, "int8")


@pytest.mark.parametrize(
    ("scheme", "low", "high", "scale", "zero_point", "qmin", "qmax", "dtype"),
    [
        ("u8", 0, 255, 1.0, 0, 0, 255, "uint8"),
        ("u8", 0, 6, 6 / 255, 0, 0, 255, "uint8"),
        ("u8", 2, 51, 0.2, 0, 0, 255, "uint8"),
        ("u8", 0, 0, 1.0, 0, 0, 255, "uint8"),
        ("u8", 0, 1e-30, 1e-30 / 255, 0, 0, 255, "uint8"),
        ("u8", 0, 1e-34, 1.0, 0, 0, 255, "uint8"),
        ("u8", 0, 1e30, 1e30 / 255, 0, 0, 255, "uint8"),
        ("s8", -1, 127, 1.0, 0, -127, 127, "int8"),
        ("s8", -254, 1, 2.0, 0, -127, 127, "int8"),
        ("s8", 0, 0, 1.0, 0, -127, 127, "int8"),
        ("s8", -3, -2, 3 / 127, 0, -127, 127, "int8"),
        ("asymmetric", -1, 1.55, 0.01, 100, 0, 255, "uint8"),
        ("asymmetric", -255, 0, 1.0, 255, 0, 255, "uint8"),
        ("asymmetric", -510, -2, 2.0, 255, 0, 255, "uint8"),
        ("asymmetric", 3, 51, 0.2, 0, 0, 255, "uint8"),
        ("asymmetric", -0.5, 254.5, 1.0, 0, 0, 255, "uint8"),  # half to even: 0.5 -> 0
        ("asymmetric", -1.5, 253.5, 1.0, 2, 0, 255, "uint8"),  # 1.5 -> 2
        ("asymmetric", 0, 0, 1.0, 0, 0, 255, "uint8"),
        ("asymmetric", -1e-35, 1e-35, 1.0, 0, 0, 255, "uint8"),
        ("asymmetric", -3e38, 3e38, 6e38 / 255, 128, 0, 255, "uint8"),
    ],
)
def test_activation(scheme, low, high, scale, zero_point, qmin, qmax, dtype):
    found = qparams.activation(scheme, low, high)
    assert found == QParams(F(scale), zero_point, qmin, qmax, dtype)
    assert isinstance(found.scale, np.float32)
    assert qparams.quantize(np.zeros(1, F), found) == zero_point


@pytest.mark.parametrize(
    ("scheme", "low", "high", "message"),
    [
        ("u8", -0.1, 1, "starts at -0.1"),
        ("u8", 0, np.inf, "finite"),
        ("s8", np.nan, 1, "finite"),
        ("asymmetric", 2, 1, "ascending"),
    ],
)
def test_activation_refuses(scheme, low, high, message):
    with pytest.raises(CalibrationError, match=message):
        qparams.activation(scheme, low, high)


@pytest.mark.parametrize(
    ("scale", "zero_point", "qmin", "qmax", "dtype"),
    [
        (0.0, 0, 0, 255, "uint8"),
        (-1.0, 0, 0, 255, "uint8"),
        (np.nan, 0, 0, 255, "uint8"),
        (np.inf, 0, 0, 255, "uint8"),
        (1.0, 256, 0, 256, "uint8"),
        (1.0, 0, -129, 127, "int8"),
        (1.0, 5, 10, 255, "uint8"),
    ],
)
def test_illegal_parameters(scale, zero_point, qmin, qmax, dtype):
    with pytest.raises(CalibrationError):
        QParams(F(scale), zero_point, qmin, qmax, dtype)


def test_clamp_is_relative_to_the_zero_point():
    clamp = u8(0.5, 100).clamp
    assert clamp.dtype == np.float32
    np.testing.assert_array_equal(clamp, [-100, 155])


def test_quantize_rounds_half_to_even_and_saturates():
    x = np.array([0.25, 0.75, 1.25, -0.25, -0.75, -1e30, 1e30, 77.7], F)
    np.testing.assert_array_equal(
        qparams.quantize(x, u8(0.5, 100)), np.uint8([100, 102, 102, 100, 98, 0, 255, 255])
    )
    np.testing.assert_array_equal(
        qparams.quantize(x, s8(0.5)), np.int8([0, 2, 2, 0, -2, -127, 127, 127])
    )


def test_quantize_divides():
    halves = np.arange(0.5, 200, dtype=F)
    differ = 0
    for scale in np.arange(1, 200, dtype=F) / F(1000):
        x = halves * scale
        division = np.clip(np.rint(x / scale), 0, 255)
        differ += np.count_nonzero(np.clip(np.rint(x * (F(1) / scale)), 0, 255) != division)
        np.testing.assert_array_equal(qparams.quantize(x, u8(scale)), division)
    assert differ > 0  # a product with the reciprocal would show


@pytest.mark.parametrize(
    ("largest", "bias", "s_x", "scale"),
    [
        (127.0, 0.0, 1.0, 1.0),
        (0.5, 0.0, 1.0, 0.5 / 127),
        (0.0, 0.0, 1.0, 1.0),
        (0.0, 2.0**30, 1.0, 1.0),
        (0.0, -(2.0**29), 0.25, 2.0),
        (1e-30, 1.0, 0.02, 1.0 / (float(F(0.02)) * 2.0**30)),
        (1.0, 1.0, 0.02, 1.0 / 127),
        (1e-46, 0.0, 1.0, 1.0),  # below the smallest float32: as good as zero
        (1e30, 0.0, 1.0, 1e30 / 127),
    ],
)
def test_weight_scales(largest, bias, s_x, scale):
    w = np.array([[[largest / 2, -largest]], [[127.0, 1.0]]])
    found = qparams.weight_scales(w, np.array([bias, 0.0]), F(s_x))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([scale, 1.0]).astype(F))


def test_the_scale_keeps_every_bias_in_int32():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(1000, 3)) * 10.0 ** rng.uniform(-40, 5, (1000, 1))
    b = rng.normal(size=1000) * 10.0 ** rng.uniform(-10, 10, 1000)
    s_x = F(3e-4)
    s_w = qparams.weight_scales(w, b, s_x)
    assert np.abs(qparams.quantize_bias(b, s_x, s_w).astype(np.int64)).max() <= 2**30 * (1 + 2**-23)
    assert np.abs(qparams.quantize_weight(w, s_w)).max() <= 127


def test_quantize_weight_divides_in_float64_per_channel():
    w = np.array([[0.5, 1.5, -2.5, 127.0], [1.0, 2.0, 3.0, -254.0]], F)
    q = qparams.quantize_weight(w, np.array([1, 2], F))
    np.testing.assert_array_equal(q, np.int8([[0, 2, -2, 127], [0, 1, 2, -127]]))
    assert q.dtype == np.int8


def test_quantize_weight_keeps_the_shape():
    assert qparams.quantize_weight(np.ones((4, 3, 2, 2)), np.ones(4, F)).shape == (4, 3, 2, 2)


def test_quantize_bias():
    b = np.array([1.0, -0.375, 0.625, 0.0])
    q = qparams.quantize_bias(b, F(0.5), np.array([0.5, 0.5, 0.5, 1.0], F))
    np.testing.assert_array_equal(q, np.int32([4, -2, 2, 0]))  # -1.5 -> -2 and 2.5 -> 2
    assert q.dtype == np.int32


def test_quantize_bias_refuses_what_leaves_int32():
    with pytest.raises(CalibrationError, match=r"channel 1.*beyond int32"):
        qparams.quantize_bias(np.array([0.0, 1.0]), F(1), np.array([1.0, 1e-30], F))


@pytest.mark.parametrize(("name", "w", "b"), [("weight", np.nan, 0.0), ("bias", 0.0, np.inf)])
def test_weights_that_are_not_finite(name, w, b):
    with pytest.raises(CalibrationError, match=name):
        qparams.weight_scales(np.array([[w, 1.0]]), np.array([b]), F(1))


@pytest.mark.parametrize(
    ("sum_w", "bias", "params", "fits"),
    [
        (127 * 66311, 0, u8(1), True),  # 255 * 127 * 66311 = 2147481735
        (127 * 66312, 0, u8(1), False),  # 2147514120
        (127 * 66311, 1912, u8(1), True),  # 2147483647
        (127 * 66311, 1913, u8(1), False),  # 2147483648
        (127 * 66311, -1913, u8(1), False),
        (127 * 66312, 0, s8(1), False),  # 255 holds for int8 too: a kernel may shift by 128
    ],
)
def test_accumulator_bound(sum_w, bias, params, fits):
    q_w = np.zeros((2, 67000), np.int8)
    q_w[1, : sum_w // 127] = 127
    q_w[1, ::2] *= -1
    refusal = qparams.accumulator_refusal(q_w, np.array([0, bias], np.int32), params)
    assert refusal is None if fits else "channel 1" in refusal


def test_multiplier_is_rounded_once():
    s_x, s_y = F(0.1), F(0.3)
    s_w = np.array([0.7, 0.01], F)
    expected = [F(float(s_x) * float(s) / float(s_y)) for s in s_w]
    found = float_multiplier(qparams.multiplier(s_x, s_w, s_y))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_leaky_multiplier_applies_alpha_before_rounding():
    rng = np.random.default_rng(0)
    s_w = rng.uniform(1e-4, 1, 500).astype(F)
    s_x, s_y, alpha = F(0.1), F(0.3), F(0.01)
    found = float_multiplier(qparams.leaky_multiplier(s_x, s_w, s_y, alpha))
    real = [float(alpha) * (float(s_x) * float(s) / float(s_y)) for s in s_w]
    np.testing.assert_array_equal(found, np.array(real).astype(F))
    # The same with two roundings differs somewhere: the order is observable.
    assert (found != alpha * float_multiplier(qparams.multiplier(s_x, s_w, s_y))).any()


def test_leaky_multiplier_takes_a_slope_per_channel():
    found = qparams.leaky_multiplier(F(1), np.array([1, 1], F), F(2), np.array([0.5, 0.0], F))
    np.testing.assert_array_equal(found, F([0.25, 0]))
    alone = qparams.rescale_multiplier_leaky(F(1), F(4), np.array([0.5, 1.0], F))
    np.testing.assert_array_equal(alone, F([0.125, 0.25]))
    assert qparams.rescale_multiplier_leaky(F(1), F(4), F(0.5)).shape == (1,)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (qparams.rescale_multiplier(F(0.1), F(0.3)), F(float(F(0.1)) / float(F(0.3)))),
        (
            qparams.product_multiplier(F(0.1), F(0.7), F(0.3)),
            F(float(F(0.1)) * float(F(0.7)) / float(F(0.3))),
        ),
    ],
)
def test_multipliers_of_one_number(found, expected):
    assert found.shape == (1,) and found.dtype == np.float64
    assert float_multiplier(found)[0] == expected


def test_average_multipliers():
    counts = np.array([[4, 6], [6, 9]])
    found = float_multiplier(qparams.average_multipliers(F(0.1), F(0.3), counts))
    expected = [[F(float(F(0.1)) / (float(F(0.3)) * n)) for n in row] for row in counts]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    "make",
    [
        lambda: qparams.multiplier(F(1), np.array([1, 1e30], F), F(1e-30)),
        lambda: qparams.leaky_multiplier(F(1), np.array([1], F), F(1), F(np.inf)),
        lambda: qparams.rescale_multiplier(F(1e30), F(1e-30)),
        lambda: qparams.product_multiplier(F(1e30), F(1e30), F(1e-3)),
        lambda: qparams.average_multipliers(F(1e38), F(0.01), np.array([1])),
    ],
)
def test_a_multiplier_beyond_float32_is_an_error(make):
    with pytest.raises(CalibrationError, match=r"multiplier .* found; a finite float32"):
        float_multiplier(make())


def test_unary_table_of_uint8():
    x, y = u8(0.1, 128), u8(1 / 255)
    table = qparams.unary_table(lambda v: 1 / (1 + np.exp(-v)), x, y)
    assert table.shape == (256,) and table.dtype == np.uint8
    assert table[128] == 127  # 0.5 is a little less than 127.5 steps: float32(1 / 255) > 1 / 255
    for q in (0, 1, 100, 200, 255):
        real = (q - 128) * float(F(0.1))
        steps = 1 / (1 + np.exp(-real)) / float(F(1 / 255))
        assert table[q] == min(255, round(steps))


def test_unary_table_of_int8_begins_at_minus_128():
    table = qparams.unary_table(np.abs, s8(1), u8(1))
    np.testing.assert_array_equal(table, np.abs(np.arange(-128, 128)))
    squares = qparams.unary_table(np.square, s8(1), s8(2))
    np.testing.assert_array_equal(
        squares, np.clip(np.rint(np.arange(-128.0, 128) ** 2 / 2), -127, 127)
    )
    assert squares.dtype == np.int8


def test_unary_table_adds_the_zero_point_after_rounding():
    table = qparams.unary_table(lambda v: v, u8(0.5, 0), u8(1, 3))
    np.testing.assert_array_equal(table[:6], [3, 3, 4, 5, 5, 5])  # 0 0.5 1 1.5 2 2.5, half to even


@pytest.mark.parametrize("function", [np.log, np.sqrt, lambda v: np.exp(v * 100), lambda v: 1 / v])
def test_unary_table_refuses_what_is_not_finite(function):
    with pytest.raises(UnsupportedOpError, match="leave the operator float"):
        qparams.unary_table(function, u8(1, 10), u8(1))
