"""Rounding weights as the layer's output wants it: worked numbers, brute force, what stays put."""

from itertools import product

import numpy as np
import pytest

from relay_int8.numerics import rounding
from relay_int8.numerics.rounding import RIDGE, ROUNDINGS, descent, error, nearest

F = np.float64


def problem(oc, k, samples=200, seed=0):
    """Return w, s, a, p of inputs that hang together, as neighbouring pixels do."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, k)) + 2 * rng.normal(size=(samples, 1))
    w = rng.normal(size=(oc, k))
    s = np.abs(w).max(axis=1) / 127 * 8  # coarse steps, so that there is something to win
    x -= x.mean(axis=0)
    a = x.T @ x / samples
    return w, s, a, w @ a


def brute_force(w, s, a, p):
    """Return the least error over all ways to round up or down, a channel at a time."""
    ridge = RIDGE * np.trace(a) / len(a)
    a, p = a + ridge * np.eye(len(a)), p + ridge * w
    least = []
    for channel in range(len(w)):
        real = w[channel] / s[channel]
        top = np.abs(real) == np.abs(real).max()
        sides = [
            [np.rint(r)] if t else sorted({np.floor(r), np.ceil(r)})
            for r, t in zip(real, top, strict=True)
        ]
        choices = np.clip(np.array(list(product(*sides))), -127, 127)
        one = np.full(len(choices), s[channel])
        least.append(error(choices, one, a, p[channel][None]).min())
    return np.array(least), a, p


@pytest.mark.fast
def test_worked_numbers():
    # Two inputs that are always equal: 0.4 + 0.4 is 0.8, nearest gives 0, one of them up gives 1.
    # The third weight makes the scale; its input is another one.
    a = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    w = np.array([[0.4, 0.4, 127.0]])
    assert nearest(w, F([1]), a, w @ a).tolist() == [[0, 0, 127]]
    assert sorted(descent(w, F([1]), a, w @ a)[0].tolist()) == [0, 1, 127]


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(3))
def test_descent_against_brute_force(seed):
    w, s, a, p = problem(4, 9, seed=seed)
    least, ridged, wanted = brute_force(w, s, a, p)
    q = descent(w, s, a, p)
    assert (np.abs(q - w / s[:, None]) < 1 + 1e-9).all()
    constant = np.einsum("ok,kl,ol->o", w, ridged, w)
    found = error(q, s, ridged, wanted) + constant
    assert (found >= least + constant - 1e-9).all()
    assert found.sum() < 2 * (least + constant).sum()


@pytest.mark.parametrize("name", ["descent", "adaround"])
@pytest.mark.parametrize("seed", range(3))
def test_the_error_shrinks(name, seed):
    w, s, a, p = problem(8, 40, seed=seed)
    q = ROUNDINGS[name](w, s, a, p)
    assert (np.abs(q - w / s[:, None]) < 1 + 1e-9).all()
    constant = np.einsum("ok,kl,ol->o", w, a, w)
    found = (error(q, s, a, p) + constant).sum()
    before = (error(nearest(w, s, a, p), s, a, p) + constant).sum()
    assert found < 0.75 * before


@pytest.mark.fast
def test_the_largest_weight_and_whole_ones_stay():
    w, s, a, p = problem(6, 12, seed=5)
    w[:, 3] = 0
    s = np.abs(w).max(axis=1) / 127
    w[:, 3] = 5 * s
    for solve in ROUNDINGS.values():
        q = solve(w, s, a, p)
        assert (np.abs(q).max(axis=1) == 127).all()
        np.testing.assert_array_equal(q[:, 3], 5)


@pytest.mark.fast
@pytest.mark.parametrize("name", ROUNDINGS)
def test_inputs_that_never_move(name):
    w = np.array([[0.4, 0.6, 127.0], [0.0, 0.0, 0.0]])
    q = ROUNDINGS[name](w, np.ones(2), np.zeros((3, 3)), np.zeros((2, 3)))
    assert np.isfinite(q).all()
    assert (np.abs(q - w) <= 1).all()


def test_descent_never_gets_worse_than_nearest():
    for seed in range(5):
        w, s, a, p = problem(8, 40, seed=seed)
        ridge = rounding.RIDGE * np.trace(a) / len(a)
        a_ridged, p_ridged = a + ridge * np.eye(40), p + ridge * w
        found = error(descent(w, s, a, p), s, a_ridged, p_ridged)
        assert (found <= error(nearest(w, s, a, p), s, a_ridged, p_ridged) + 1e-12).all()


@pytest.mark.fast
@pytest.mark.parametrize("name", ["nearest", "descent", "adaround"])
def test_groups_are_rounded_as_each_alone(name):
    problems = [problem(3, 9, seed=seed) for seed in range(4)]
    together = ROUNDINGS[name](*(np.stack(arrays) for arrays in zip(*problems, strict=True)))
    alone = [ROUNDINGS[name](*one) for one in problems]
    np.testing.assert_array_equal(together, np.stack(alone))
