"""What rounding adds to the arguments of gates: worked numbers, and the numbers of a simulation."""

import numpy as np
import pytest

from relay_int8.numerics.gate_noise import gate_noise


@pytest.mark.fast
@pytest.mark.parametrize(
    ("w", "s_w", "s_x", "largest", "wanted"),
    [
        ([[3, 4]], [0], 1, 0, 25),  # of the input alone
        ([[3, 4]], [2], 0, 3, 36),  # of the weights alone
        ([[3, 4]], [2], 1, 3, 61),  # of both
        ([[3, 4], [0, 1]], [0, 0], 1, 0, 13),  # a mean of two outputs
        ([[0, 0]], [1], 1, 0, 0),
    ],
)
def test_worked_numbers(w, s_w, s_x, largest, wanted):
    found = gate_noise(np.array(w, np.float32), np.array(s_w, np.float32), s_x, largest)
    assert found == pytest.approx(np.sqrt(wanted / 12))


@pytest.mark.fast
def test_it_is_the_noise_of_a_rounded_product():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(64, 24)).astype(np.float32)
    s_w, s_x, largest = np.abs(w).max(axis=1) / 127, 0.05, 30.0
    x = np.zeros((4096, 24))
    x[:, :] = rng.uniform(-1, 1, x.shape)
    x[np.arange(len(x)), rng.integers(0, 24, len(x))] = largest  # one input far above the others
    rounded_w = np.rint(w / s_w[:, None]) * s_w[:, None]
    error = np.rint(x / s_x) * s_x @ rounded_w.T - x @ w.T
    assert gate_noise(w, s_w, s_x, largest) == pytest.approx(error.std(), rel=0.1)
