"""fma and requantize in NumPy, by worked numbers."""

from fractions import Fraction

import numpy as np
import pytest

from schedules.reference.exact import fma, requantize, to_integer

BOUNDS = np.array([-128, 127], np.float32)


def nearest_float32(value: Fraction) -> np.float32:
    """Round half to even by comparing exact distances."""
    middle = np.float32(float(value))
    near = [
        middle,
        np.nextafter(middle, np.float32(-np.inf)),
        np.nextafter(middle, np.float32(np.inf)),
    ]
    near.sort(key=lambda f: (abs(Fraction(float(f)) - value), int(f.view(np.int32)) & 1))
    return near[0]


# Sums whose bits reach past float64, or lie on and beside ties of float32.
CASES = [
    (2.0**-40, 2.0**-40, 1 + 2.0**-23),
    ((1 + 2.0**-12), (1 + 2.0**-12), -1.0),
    (1 + 2.0**-23, 2.0**-24, 1.0),
    (-(1 + 2.0**-23), 2.0**-24, -1.0),
    (2.0**-30, 1 + 2.0**-20, 1 + 2.0**-23),
    (1 - 2.0**-24, 2.0**-25, 1.0),
    (2.0**-75, 2.0**-75, 2.0**-149),
]


@pytest.mark.fast
@pytest.mark.parametrize(("a", "b", "c"), CASES)
def test_fma_rounds_once(a, b, c):
    a, b, c = (np.array([v], np.float32) for v in (a, b, c))
    exact = Fraction(float(a[0])) * Fraction(float(b[0])) + Fraction(float(c[0]))
    assert fma(a, b, c)[0] == nearest_float32(exact)


def test_fma_is_not_two_float32_operations():
    """The product 1 - 2**-46 rounds to 1 in float32."""
    a, b, c = np.float32(1 + 2.0**-23), np.float32(1 - 2.0**-23), np.float32(-1)
    assert fma(a, b, c) == np.float32(-(2.0**-46))
    assert np.float32(a * b) + c == 0


def test_fma_random_against_fractions():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(500).astype(np.float32) for _ in range(3))
    c *= np.exp2(rng.integers(-30, 30, 500)).astype(np.float32)
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    np.testing.assert_array_equal(fma(a, b, c), [nearest_float32(value) for value in exact])


def test_fma_is_not_a_float64_operation():
    """2**-24 above 1 is a tie; 2**-24 + 2**-80 is above it, which float64 cannot hold."""
    a, b = np.float32(2.0**-12 * (1 + 2.0**-23)), np.float32(2.0**-12 * (1 - 2.0**-23))
    c = np.float32(1 + 2.0**-23)
    # a * b = 2**-24 - 2**-70: below the tie of 1 + 2**-23 and 1 + 2**-22, whose even is the upper.
    assert np.float32(np.float64(a) * np.float64(b) + np.float64(c)) == np.float32(1 + 2.0**-22)
    assert fma(a, b, c) == c


def test_fma_keeps_infinities():
    inf = np.float32(np.inf)
    assert fma(inf, np.float32(1), np.float32(-3)) == inf
    assert np.isnan(fma(inf, np.float32(1), -inf))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("acc", "m", "z", "dtype", "expected"),
    [
        (5, 0.5, 0, "int8", 2),  # 2.5 to even
        (7, 0.5, 0, "int8", 4),
        (-5, 0.5, 0, "int8", -2),
        (3, 0.5, 10, "int8", 12),
        (2**31 - 1, 1.0, 0, "int8", 127),
        (-(2**31), 1.0, 0, "int8", -128),
        (100, 1.5, 0, "float32", 127.0),
        (3, 0.5, 0, "float32", 1.5),
    ],
)
def test_requantize(acc, m, z, dtype, expected):
    y = requantize(np.array([acc], np.int32), np.float32(m), np.int32(z), BOUNDS, dtype)
    assert y.dtype == dtype
    assert y[0] == expected


def test_to_integer_adds_z_after_the_clamp():
    t = np.array([-1e9, -0.5, 0.5, 1.5, 1e9], np.float32)
    bounds = np.array([-10, 245], np.float32)
    np.testing.assert_array_equal(
        to_integer(t, np.int32(10), bounds, "uint8"), [0, 10, 10, 12, 255]
    )
