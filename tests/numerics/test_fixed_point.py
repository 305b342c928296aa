"""Fixed-point requantization against big integers and fractions, case by case."""

from fractions import Fraction

import numpy as np
import pytest

from relay_int8.errors import CalibrationError
from relay_int8.numerics.fixed_point import (
    FixedMultiplier,
    quantize_multiplier,
    quantize_together,
)
from schedules.reference.exact import requantize_fixed, shift_right
from schedules.spec import ROUNDINGS

pytestmark = pytest.mark.fast
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1


def multiply(x: np.ndarray, by: FixedMultiplier, rounding) -> np.ndarray:
    """Return ``x`` times real multipliers, as kernels have them, saturated to int32."""
    product = shift_right(x.astype(np.int64) * by.multiplier, by.shift, rounding)
    return np.clip(product, INT32_MIN, INT32_MAX)


def half_away(x: Fraction) -> int:
    return int(abs(x) + Fraction(1, 2)) * (-1 if x < 0 else 1)


def half_up(x: Fraction) -> int:
    return (x + Fraction(1, 2)).__floor__()


def slow_gemmlowp(x: int, multiplier: int, shift: int) -> int:
    """MultiplyByQuantizedMultiplier as gemmlowp writes it, in integers that never overflow."""
    exponent = 31 - shift
    product = x * 2 ** max(exponent, 0) * multiplier
    nudge = 2**30 if product >= 0 else 1 - 2**30
    high = int(Fraction(product + nudge, 2**31))  # C's division: towards zero
    right = max(-exponent, 0)
    mask = 2**right - 1
    remainder = high & mask
    return (high >> right) + (remainder > (mask >> 1) + (high < 0))


SLOW = {
    "gemmlowp": slow_gemmlowp,
    "tflite": lambda x, m, shift: half_up(Fraction(x * m, 2**shift)),
    "tpu-mlir": lambda x, m, shift: half_away(Fraction(x * m, 2**shift)),
}


def test_the_example_of_the_tpu_mlir_manual():
    found = quantize_multiplier(0.1234)
    assert (found.multiplier.tolist(), found.shift.tolist()) == ([2119995857], [34])


@pytest.mark.parametrize(
    ("real", "multiplier", "shift"),
    [
        (1.0, 2**30, 30),
        (0.5, 2**30, 31),
        (0.75, 3 * 2**29, 31),
        (2.0, 2**30, 29),
        (2.0**29, 2**30, 1),
        (2.0**30 - 1, 2**31 - 2, 1),  # the largest integer
        (0.0, 0, 31),
        (1 - 2.0**-33, 2**30, 30),  # rounds up to 2**31: the exponent takes it
        (2.0**-32, 2**30, 62),
        (2.0**-33, 0, 31),  # below what 31 more places can hold
        (-0.75, -3 * 2**29, 31),  # a negative slope
        (-1 + 2.0**-33, -(2**30), 30),
    ],
)
def test_multipliers(real, multiplier, shift):
    found = quantize_multiplier(real)
    assert (found.multiplier.item(), found.shift.item()) == (multiplier, shift)
    assert found.multiplier.dtype == found.shift.dtype == np.int32


def test_multipliers_are_the_nearest():
    reals = np.exp(np.random.default_rng(0).uniform(-20, 20, 1000))
    found = quantize_multiplier(reals)
    assert (found.multiplier >= 2**30).all()
    stands_for = np.ldexp(found.multiplier.astype(np.float64), -found.shift)
    assert (np.abs(stands_for / reals - 1) <= 2.0**-31).all()


def test_multipliers_at_one_shift():
    large, small = quantize_together([np.array([0.75, 0.0, 1e-9]), np.array([-0.1, 0.0, 0.5])])
    assert large.multiplier.tolist() == [3 * 2**29, 0, 2]  # 1e-9 * 2**31 is 2.1
    assert small.multiplier.tolist() == [-214748365, 0, 2**30]
    assert large.shift.tolist() == small.shift.tolist() == [31, 31, 31]


@pytest.mark.parametrize("real", [-(2.0**30), np.nan, np.inf, 2.0**30 - 0.5, 1e30])
def test_multipliers_that_are_none(real):
    with pytest.raises(CalibrationError, match="magnitudes up to 2"):
        quantize_multiplier([0.5, real])


@pytest.mark.parametrize(
    ("x", "real", "gemmlowp", "tflite", "tpu_mlir"),
    [
        (1, 0.5, 1, 1, 1),
        (-1, 0.5, 0, 0, -1),  # gemmlowp's first rounding: -0.5 towards zero
        (3, 0.5, 2, 2, 2),
        (-3, 0.5, -1, -1, -2),
        (2, 0.25, 1, 1, 1),
        (-2, 0.25, -1, 0, -1),
        (-6, 0.25, -2, -1, -2),
        (5, 0.125, 1, 1, 1),
        (3, 0.125, 1, 0, 0),  # twice rounded: 0.375 is 0.5 is 1
        (1000, 0.1234, 123, 123, 123),
        (-1000, 0.1234, -123, -123, -123),
        (7, 4.0, 28, 28, 28),
        (2**30 - 1, 1.0, 2**30 - 1, 2**30 - 1, 2**30 - 1),
        (INT32_MAX, 1.0, INT32_MAX, INT32_MAX, INT32_MAX),
        (INT32_MIN, 1.0, INT32_MIN, INT32_MIN, INT32_MIN),
        (INT32_MAX, 0.5, 2**30, 2**30, 2**30),
        (INT32_MAX, 4.0, INT32_MAX, INT32_MAX, INT32_MAX),
        (INT32_MIN, 4.0, INT32_MIN, INT32_MIN, INT32_MIN),
        (7, -0.5, -3, -3, -4),
    ],
)
def test_worked_numbers(x, real, gemmlowp, tflite, tpu_mlir):
    by = quantize_multiplier(real)
    wanted = {"gemmlowp": gemmlowp, "tflite": tflite, "tpu-mlir": tpu_mlir}
    found = {name: multiply(np.array([x]), by, name).item() for name in wanted}
    slow = {
        name: min(max(SLOW[name](x, by.multiplier.item(), by.shift.item()), INT32_MIN), INT32_MAX)
        for name in wanted
    }
    assert found == slow
    assert found == wanted


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("reals", [(-22, 0), (0, 15)])
def test_equal_to_exact_arithmetic(rounding, reals):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.integers(-(2**b), 2**b, 60) for b in (3, 8, 20, 31)])
    by = quantize_multiplier(np.exp2(rng.uniform(*reals, len(x))))
    wanted = [
        min(max(SLOW[rounding](int(a), int(m), int(s)), INT32_MIN), INT32_MAX)
        for a, m, s in zip(x, by.multiplier, by.shift, strict=True)
    ]
    np.testing.assert_array_equal(multiply(x.astype(np.int32), by, rounding), wanted)


def test_halves_tell_the_roundings_apart():
    x = np.arange(-9, 10, 2)
    halves = quantize_multiplier(0.5)
    up, away = (multiply(x, halves, name) for name in ("tflite", "tpu-mlir"))
    np.testing.assert_array_equal(up, np.floor(x / 2 + 0.5))
    np.testing.assert_array_equal(away, np.sign(x) * np.floor(np.abs(x) / 2 + 0.5))


def test_channels_and_the_clamp():
    by = quantize_multiplier([0.5, 0.1234])
    multiplier, shift = by.multiplier.reshape(2, 1), by.shift.reshape(2, 1)
    x = np.array([[-300, -20, 100], [-20, 100, 4000]])
    bounds = np.array([-128 - 3, 127 - 3], np.int32)  # relative to the zero point
    found = requantize_fixed(x * multiplier, shift, np.int32(3), bounds, "int8", "tpu-mlir")
    np.testing.assert_array_equal(found, [[-128, -7, 53], [1, 15, 127]])
