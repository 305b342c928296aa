"""The vectorized search against a literal transcription of the published pseudo-code."""

import math
import time

import numpy as np
import pytest

from relay_int8.calibration import Grid, Histogram
from relay_int8.calibration.methods import KlTensorrt
from relay_int8.calibration.methods.divergence import divergences as table
from tests.calibration.samples import SAMPLES, magnitudes

TIE = 1e-12


def divergences(counts, levels=128):
    return table(counts, levels, np.arange(levels, len(counts)))


def transcribe(bins, levels=128):
    """Return (divergence of each candidate, m + 0.5 or the number of bins), loop by loop."""
    bins = [int(count) for count in bins]
    found = []
    for i in range(levels, len(bins)):
        p = bins[:i]
        p[i - 1] += sum(bins[i:])
        q = [0.0] * i
        members = [[] for _ in range(levels)]
        for j in range(i):
            members[levels * j // i].append(j)
        for level in members:
            filled = [j for j in level if bins[j]]
            for j in filled:
                q[j] = sum(bins[k] for k in level) / len(filled)
        found.append(kl(p, q))
    least = min(found, default=math.inf)
    if math.isinf(least):
        return found, len(bins)
    return found, levels + next(i for i, d in enumerate(found) if d <= least + TIE) + 0.5


def kl(p, q):
    if sum(q) == 0 or sum(p) == 0:
        return math.inf
    total_p, total_q = math.fsum(p), math.fsum(q)
    terms = []
    for a, b in zip(p, q, strict=True):
        if a and not b:
            return math.inf
        if a:
            terms.append(a / total_p * math.log((a / total_p) / (b / total_q)))
    return math.fsum(terms)


def histogram(counts, high=1.0, low=0.0, absolute=True):
    grid = Grid(np.float32(low), np.float32(high), absolute, len(counts))
    return Histogram(grid, np.asarray(counts, np.int64))


def sampled(name, bins, seed):
    draw = magnitudes(name, seed)
    counts, _ = np.histogram(draw, bins=bins, range=(0, draw.max()))
    return counts


@pytest.mark.fast
@pytest.mark.parametrize("name", SAMPLES)
def test_divergences_equal_the_transcription(name):
    counts = sampled(name, bins=300, seed=1)
    found, kept = transcribe(counts)
    np.testing.assert_allclose(divergences(counts), found, rtol=0, atol=1e-13)
    low, high = KlTensorrt().thresholds(histogram(counts, high=3.0))
    assert low == 0
    assert high == kept * float(np.float32(3.0 / 300))


def test_2048_bins_equal_the_transcription():
    counts = sampled("heavy tail", bins=2048, seed=3) * 1000003
    counts[0] += 10**12
    found, kept = transcribe(counts)
    np.testing.assert_allclose(divergences(counts), found, rtol=0, atol=1e-13)
    assert KlTensorrt().thresholds(histogram(counts, high=2.0)) == (0.0, kept * 2.0 / 2048)


def one(bins, index, count=7):
    counts = np.zeros(bins, np.int64)
    counts[index] = count
    return counts


@pytest.mark.fast
@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        pytest.param(np.zeros(200), 200, id="no value at all"),
        pytest.param(one(200, 199), 200, id="all in the last bin"),
        pytest.param(one(200, 198), 199.5, id="all in the last bin a candidate can hold"),
        pytest.param(one(200, 5), 128.5, id="one bin, all candidates tie"),
        pytest.param(
            one(200, 0) + one(200, 199),
            200,
            id="two ends: always an empty bin before what is beyond",
        ),
        pytest.param(np.arange(128), 128, id="no candidate"),
        pytest.param(np.r_[np.arange(1, 129), 0, 0], 128.5, id="one bin a level is exact"),
    ],
)
def test_degenerate(counts, kept):
    assert transcribe(counts)[1] == kept
    assert KlTensorrt().thresholds(histogram(counts, high=len(counts)))[1] == kept


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_rounding_does_not_break_ties(seed):
    # Far enough apart, every bin has a level of its own: all candidates lose nothing.
    counts = np.zeros(2048, np.int64)
    counts[[0, 40, 90, 127]] = np.random.default_rng(seed).integers(1, 10**9, 4)
    assert KlTensorrt().thresholds(histogram(counts))[1] == 128.5 / 2048


@pytest.mark.fast
def test_hand_worked_candidate():
    # i = 4 of 5 bins in 2 levels: P = [1, 0, 2, 3 + 4] / 10, Q = [1, 0, 2.5, 2.5] / 6.
    found = divergences(np.array([1, 0, 2, 3, 4]), levels=2)
    expected = 0.1 * np.log(0.1 * 6) + 0.2 * np.log(0.2 * 6 / 2.5) + 0.7 * np.log(0.7 * 6 / 2.5)
    np.testing.assert_allclose(found[2], expected, rtol=1e-14)
    # i = 2: bins[1] is empty and values lie beyond.
    assert np.isinf(found[0])


@pytest.mark.fast
def test_uniform_keeps_everything_it_can():
    # With equal counts only what saturates costs anything, so the last candidate wins.
    assert KlTensorrt().thresholds(histogram(np.full(2048, 5)))[1] == 2047.5 / 2048


@pytest.mark.fast
@pytest.mark.parametrize("high", [1e-30, 1.0, 1e30])
def test_the_threshold_follows_the_range(high):
    counts = sampled("laplace", bins=2048, seed=5)
    threshold = KlTensorrt().thresholds(histogram(counts, high))[1]
    assert threshold == KlTensorrt().thresholds(histogram(counts))[1] * float(np.float32(high))


def test_two_sided_searches_each_end_with_256_levels():
    counts = np.concatenate([sampled("normal", 400, 1)[::-1], sampled("heavy tail", 600, 2)])
    width = float(np.float32(np.float32(10) / 1000))
    low, high = KlTensorrt().thresholds(histogram(counts, low=-4, high=6, absolute=False))
    assert high == -4 + transcribe(counts, 256)[1] * width
    assert low == 6 - transcribe(counts[::-1], 256)[1] * width
    assert -4 < low < 0 < high < 6


def test_a_mirrored_histogram_has_mirrored_thresholds():
    counts = np.concatenate([sampled("normal", 400, 1)[::-1], sampled("laplace", 400, 2)])
    low, high = KlTensorrt().thresholds(histogram(counts, low=-1, high=1, absolute=False))
    assert KlTensorrt().thresholds(histogram(counts[::-1], low=-1, high=1, absolute=False)) == (
        -high,
        -low,
    )


def test_the_histogram_is_left_alone():
    counts = sampled("laplace", bins=300, seed=5)
    before = histogram(counts)
    KlTensorrt().thresholds(before)
    np.testing.assert_array_equal(before.counts, counts)


def test_seventy_tensors_take_seconds_at_most():
    counts = sampled("laplace", bins=2048, seed=5)
    start = time.process_time()
    for _ in range(70):
        divergences(counts)
    # 2 s on a quiet core; the bound leaves room for a busy one.
    assert time.process_time() - start < 10
