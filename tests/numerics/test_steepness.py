"""What rounding a function's argument adds: worked numbers, functions of networks, a simulation."""

import numpy as np
import pytest

from relay_int8.numerics.qparams import activation
from relay_int8.numerics.steepness import steepness
from relay_int8.numerics.unary import UNARY

UNIT = activation("asymmetric", -1, 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("factor", "wanted"),
    [
        (1, 1),  # the result's steps are the argument's
        (0.5, 0.25),
        (3, 3),  # nine, of a third of the entries: what lies beyond the result's range is cut
        (0, 0),
    ],
)
def test_worked_numbers(factor, wanted):
    assert steepness(lambda x: factor * x, UNIT, UNIT) == pytest.approx(wanted, rel=0.02)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("sigmoid", (-8, 8), (0, 1)),
        ("tanh", (-6, 6), (-1, 1)),
        ("nn.silu", (-8, 8), (-0.28, 8)),
        ("nn.gelu", (-8, 8), (-0.17, 8)),
        ("sqrt", (0, 9), (0, 3)),
        ("square", (-3, 3), (0, 9)),
        ("exp", (-8, 0), (0, 1)),
    ],
)
def test_functions_of_usual_ranges_are_not_steep(name, x, y):
    schemes = ["asymmetric" if low < 0 else "u8" for low in (x[0], y[0])]
    params = [activation(s, *ends) for s, ends in zip(schemes, (x, y), strict=True)]
    assert steepness(UNARY[name], *params) < 8


@pytest.mark.fast
def test_it_is_the_error_of_a_rounded_argument():
    x = activation("asymmetric", -30, 30)
    reals = np.random.default_rng(0).uniform(-30, 30, 100_000)
    rounded = np.rint(reals / float(x.scale)) * float(x.scale)
    error = np.square(np.sin(rounded) - np.sin(reals)).mean()
    expected = steepness(np.sin, x, UNIT) * float(UNIT.scale) ** 2 / 12
    assert expected == pytest.approx(error, rel=0.05)
    assert steepness(np.sin, x, UNIT) > 400
