"""The oracle's scalar arithmetic, against exact rational numbers and by hand."""

from fractions import Fraction

import numpy as np
import pytest

from tests.oracle.arithmetic import (
    Params,
    dequantize,
    fma,
    multiplier,
    quantize,
    quantize_constant,
    round_and_clamp,
    scaled,
)

TINY = 2.0**-149  # the smallest float32
ULP = 2.0**-23  # of 1


def params(s, z=0, low=-128, high=127, dtype="int8", axis=-1):
    return Params(np.float32(s), np.asarray(z), axis, low, high, dtype)


def nearest_float32(x):
    """Round an exact Fraction to float32, half to even, by integers alone."""
    if x == 0:
        return np.float32(0)
    size = abs(x)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = Fraction(2) ** max(exponent - 23, -149)
    rounded = round(size / step) * step  # Python rounds a Fraction half to even
    value = np.float32(np.inf) if rounded >= Fraction(2) ** 128 else np.float32(float(rounded))
    return -value if x < 0 else value


def assert_fma_is_exact(a, b, c):
    actual = fma(np.float32(a), np.float32(b), np.float32(c))
    exact = [
        nearest_float32(Fraction(float(i)) * Fraction(float(j)) + Fraction(float(k)))
        for i, j, k in np.broadcast(np.float32(a), np.float32(b), np.float32(c))
    ]
    np.testing.assert_array_equal(actual.reshape(-1), np.array(exact))


def test_fma_rounds_once_on_random_bits():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, (3, 4000), dtype=np.uint32)
    a, b, c = (x[np.isfinite(x)][:3900] for x in bits.view(np.float32))
    assert_fma_is_exact(a, b, c)


def test_fma_rounds_once_where_addends_cancel_or_nearly_tie():
    rng = np.random.default_rng(2)
    a = rng.integers(-255, 256, 3000).astype(np.float32)
    b = rng.uniform(0.001, 4, 3000).astype(np.float32)
    near = (a * b).astype(np.float32)
    half = rng.integers(-256, 256, 3000).astype(np.float32) + np.float32(0.5)
    for c in (-near, np.nextafter(-near, np.float32(0)), half - near, near * np.float32(2**24)):
        assert_fma_is_exact(a, b, c)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (1 + ULP, 1 + ULP, -1),  # 2 ulp + ulp**2: the last bit is in the product alone
        (1 + ULP, 1 - ULP / 2, 2**24),  # float64 rounds to a tie of float32; the exact sum is above
        (1 + ULP, 2**-24 + 2**-47, 1),  # just above half an ulp of 1
        (1 - ULP / 2, 2**-24, 1),  # just below it
        (-(1 - ULP / 2), 2**-24, 1),
        (TINY, 0.5, TINY),  # 1.5 of the smallest number: a tie between subnormals
        (TINY, TINY, 0),
        (TINY, -TINY, 1),
        (3e38, 2, -3e38),
        (3e38, 3e38, 1),
        (-3e38, 3e38, 1),
        (0, 5, 0),
    ],
)
@pytest.mark.fast
def test_fma_rounds_once_on_adversarial_values(a, b, c):
    assert_fma_is_exact(a, b, c)


@pytest.mark.fast
def test_fma_of_float64_alone_would_round_twice():
    a, b, c = np.float32(1 + ULP), np.float32(2**-24 - 2**-47), np.float32(1)
    # a * b is 2**-24 * (1 - 2**-46): below half an ulp of 1, but float64 rounds the sum to the tie
    # 1 + 2**-24 and then float32 to even, 1; with 1 + ulp in place of 1 the tie goes up.
    assert_fma_is_exact(a, b, c + np.float32(ULP))
    twice = np.float32(np.float64(a) * np.float64(b) + np.float64(c + np.float32(ULP)))
    assert twice == np.float32(1 + 2 * ULP)
    assert fma(a, b, c + np.float32(ULP)) == np.float32(1 + ULP)


@pytest.mark.fast
def test_fma_keeps_an_infinite_addend():
    actual = fma(np.float32([3, 3]), np.float32([1, 1]), np.float32([np.inf, -np.inf]))
    np.testing.assert_array_equal(actual, [np.inf, -np.inf])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("x", "z", "low", "expected"),
    [
        (0.25, 0, -128, 0),  # 0.5 rounds to even
        (0.75, 0, -128, 2),
        (-0.75, 0, -128, -2),
        (1.25, 3, -128, 5),
        (1e9, 3, -128, 127),
        (-1e9, 3, -128, -128),
        (-1e9, 0, -127, -127),
        (3e38, 0, -128, 127),  # x / s overflows float32
    ],
)
def test_quantize_rounds_half_to_even_and_saturates(x, z, low, expected):
    assert quantize(np.array([x], np.float32), params(0.5, z, low)) == [expected]


@pytest.mark.fast
def test_activations_divide_in_float32_and_weights_in_float64():
    # (1.5 + u) / (1 + u) = 1.5 - u / 2 + ...: float32 rounds it to the tie 1.5, float64 does not.
    x, y = np.array([1.5 + ULP], np.float32), params(1 + ULP)
    assert quantize(x, y) == [2]
    assert quantize_constant(x, y) == [1]


@pytest.mark.fast
def test_quantize_refuses_nan():
    with pytest.raises(ValueError, match="NaN has no integer"):
        quantize(np.array([np.nan], np.float32), params(1))


@pytest.mark.fast
def test_scales_lie_on_their_axis():
    w = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    by_row = Params(np.float32([1, 2]), np.array([0, 1]), 0, -128, 127, "int8")
    q = quantize_constant(w, by_row)
    np.testing.assert_array_equal(q, [[1, 2, 3], [3, 3, 4]])  # 2, 2.5 -> 2 and 3, plus z
    np.testing.assert_array_equal(dequantize(q, by_row), [[1, 2, 3], [4, 4, 6]])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-np.inf, np.inf, [0, 3, 8, 255]),
        (0, np.inf, [3, 3, 8, 255]),  # ReLU: nothing below the zero point
        (0, 1.125, [3, 3, 7, 7]),  # 1.125 / 0.25 = 4.5 rounds to 4
        (0.25, 2, [4, 4, 8, 11]),
        (-9, -5, [0, 0, 0, 0]),  # a clip outside of the range stays within the type
        (90, 99, [255, 255, 255, 255]),
    ],
)
def test_clip_becomes_bounds_on_q(low, high, expected):
    t = np.array([-1e30, 0.5, 5.4999, 1e30], np.float32)
    y = params(0.25, 3, 0, 255, "uint8")
    np.testing.assert_array_equal(round_and_clamp(t, y, low, high), expected)


@pytest.mark.fast
def test_multipliers_round_once_and_stay_finite():
    assert multiplier(1 + ULP / 2 + 2.0**-40) == np.float32(1 + ULP)
    with pytest.raises(ValueError, match="not finite"):
        multiplier(1e39)


@pytest.mark.fast
def test_the_accumulator_is_rounded_to_float32_before_the_product():
    # 2**24 + 1 is no float32: it becomes 2**24, and 2**24 * 0.75 is exact.
    assert scaled(np.array([2**24 + 1]), np.float32(0.75)) == [0.75 * 2**24]
