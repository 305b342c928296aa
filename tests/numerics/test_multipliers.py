"""Constants of fixed-point additions, by worked numbers."""

import numpy as np
import pytest

from relay_int8.numerics.multipliers import multiplier_constants
from schedules.spec import Binary

pytestmark = pytest.mark.fast
REALS = {"m_a": np.float64(0.25), "m_b": np.float64(0.0625)}


def addition(rounding):
    """Return the constants of ``0.25 a + 0.0625 b``."""
    types = {"a": "uint8", "b": "int8", "y": "int8"}
    spec = Binary(operator="add", a_shape=(1, 4), b_shape=(1, 4), requantize=rounding, **types)
    found = multiplier_constants(spec, REALS)
    return {name: value.item() for name, value in found.items()}


@pytest.mark.parametrize("rounding", ["gemmlowp", "tflite"])
def test_operands_of_tensorflow_lite_are_parts_of_twice_the_largest(rounding):
    """t = 2 * 0.25; operands are 0.25 / t and 0.0625 / t, the sum t / 2**20."""
    expected = {"m_a": 2**30, "m_b": 2**30, "m": 2**30}
    shifts = {"shift_a": 31, "shift_b": 33, "shift": 51}
    assert addition(rounding) == expected | shifts


def test_operands_of_tpu_mlir_share_a_shift():
    assert addition("tpu-mlir") == {"m_a": 2**30, "m_b": 2**28, "shift": 32}
