"""One answer beats another where the images agree, not where one of them decides."""

import numpy as np
import pytest

from relay_int8.numerics.judgement import Judgement
from relay_int8.numerics.snr import least_snr_db

pytestmark = pytest.mark.fast


def judgement(noise, seed=0):
    """Return the judgement on 8 images of one output whose noise is as given."""
    rng = np.random.default_rng(seed)
    wanted = rng.normal(size=(8, 100))
    found = wanted + np.reshape(noise, (-1, 1)) * rng.choice([-1, 1], wanted.shape)
    return Judgement.of([({"y": wanted}, {"y": found})])


def test_the_ratio_is_that_of_the_least_exact_output():
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(3):
        wanted = {name: rng.normal(size=(4, 2, 5)).astype(np.float32) for name in "ab"}
        noisy = [("a", 0.01), ("b", 0.1)]
        runs.append((wanted, {name: wanted[name] + np.float32(n) for name, n in noisy}))
    found = Judgement.of(runs)
    assert found.signal.shape == (12, 2)
    assert found.ratio_db == pytest.approx(least_snr_db(runs))


def test_a_gain_on_every_image_wins():
    better, worse = judgement([0.09] * 8), judgement([0.1] * 8)
    assert better.ratio_db - worse.ratio_db == pytest.approx(20 * np.log10(10 / 9))
    assert better.beats(worse, 0.1)
    assert not better.beats(worse, 1.0)
    assert not worse.beats(better, 0.1)


def test_a_gain_on_one_image_does_not():
    first, second = judgement([1.0, *[0.1] * 7]), judgement([0.9, *[0.101] * 7])
    assert second.ratio_db > first.ratio_db + 0.5
    assert not second.beats(first, 0.1)


def test_a_small_gain_that_most_images_have_wins():
    hard = [1.0, 0.9, *[0.1] * 6]
    first, second = judgement(hard), judgement([0.99, 0.88, *[0.095] * 6])
    assert 0.1 < second.ratio_db - first.ratio_db < 0.2
    assert second.beats(first, 0.1)
    one_worse = judgement([0.99, 0.88, *[0.095] * 3, *[0.12] * 3])
    assert not one_worse.beats(first, 0.15)


def test_halves_are_joined():
    first, second = judgement([0.1] * 8), judgement([0.2] * 8, seed=1)
    both = Judgement.joined([first, second])
    assert both.signal.shape == (16, 1)
    assert second.ratio_db < both.ratio_db < first.ratio_db
    assert Judgement.joined([first]).ratio_db == first.ratio_db


def test_without_noise():
    exact, noisy = judgement([0.0] * 8), judgement([0.1] * 8)
    assert exact.ratio_db == np.inf
    assert exact.beats(noisy, 0.1)
    assert not noisy.beats(exact, 0.1)
    assert not exact.beats(exact, 0.1)


def test_one_image_counts_as_it_is():
    wanted = np.ones((1, 4))
    better, worse = (Judgement.of([({"y": wanted}, {"y": wanted + e})]) for e in (0.1, 0.2))
    assert better.beats(worse, 0.1)
