"""Sums of convolutions: windows that are joined, and what computing them rounds."""

import numpy as np
import pytest

from relay_int8.graph.branches import TENSOR_ROUNDING, WEIGHT_ROUNDING, WeightedSum, Window

RNG = np.random.default_rng(0)


def window(*dims: int, groups: int = 1, **at: object) -> Window:
    return Window(weights=RNG.normal(size=dims), groups=groups, **at)


@pytest.mark.fast
def test_a_smaller_window_stands_where_it_stood():
    a = window(2, 2, 3, 3, start=(-1, -1))
    b = window(2, 2, 1, 2, start=(0, 1))
    joined = a.plus(b)
    assert (joined.start, joined.weights.shape) == ((-1, -1), (2, 2, 3, 4))
    expected = np.zeros((2, 2, 3, 4))
    expected[..., :3] += a.weights
    expected[:, :, 1:2, 2:] += b.weights
    assert (joined.weights == expected).all()


@pytest.mark.fast
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_an_identity_is_one_at_the_centre_of_its_own_channel(groups: int):
    a = Window(weights=np.zeros((4, 4 // groups, 3, 3)), groups=groups, start=(-1, -1))
    joined = Window.identity(4).plus(a)
    rows, inputs = np.nonzero(joined.weights[:, :, 1, 1])
    assert list(rows) == [0, 1, 2, 3]
    assert list(inputs + rows // (4 // groups) * (4 // groups)) == [0, 1, 2, 3]
    assert joined.weights.sum() == 4


@pytest.mark.fast
def test_a_single_tap_takes_any_dilation():
    a = window(2, 1, 3, 3, groups=2, start=(-1, -1), dilation=(2, 2))
    assert a.plus(Window.identity(2)).dilation == (2, 2)
    assert Window.identity(2).plus(a).dilation == (2, 2)


@pytest.mark.fast
@pytest.mark.parametrize(
    "other",
    [
        window(4, 1, 3, 3, groups=4, strides=(2, 2)),
        window(4, 1, 3, 3, groups=4, dilation=(2, 2)),
        window(4, 2, 3, 3, groups=2),
        window(4, 2, 1, 1, groups=2),
    ],
)
def test_other_strides_dilations_and_groups_are_not_joined(other: Window):
    assert window(4, 1, 3, 3, groups=4).plus(other) is None


@pytest.mark.fast
def test_an_identity_over_other_channels_is_not_joined():
    assert Window.identity(6).plus(window(6, 4, 3, 3)) is None


@pytest.mark.fast
def test_what_a_mixture_rounds():
    """x + a * (f - x), f a tensor: the difference, its product and nothing else are bytes."""
    ones, a = np.ones(1), np.array([0.5])
    f, x = (WeightedSum.of(name, Window.identity(1), "tensor") for name in "fx")
    difference = f.minus(x)
    assert difference.stored_noise == TENSOR_ROUNDING * 2
    mixed = difference.scaled(a, 0 * ones).plus(x)
    assert mixed.repeats
    assert {name: float(each.weights.item()) for name, each in mixed.windows.items()} == {
        "f": 0.5,
        "x": 0.5,
    }
    assert mixed.noise == TENSOR_ROUNDING * (2 * 0.25 + 2 * 0.25)
    assert mixed.rewritten().noise == TENSOR_ROUNDING * 2 * 0.25


@pytest.mark.fast
def test_a_convolution_takes_on_what_is_added_to_it():
    conv = Window(weights=np.ones((1, 1, 3, 3)), groups=1, start=(-1, -1))
    layer = WeightedSum.of("x", conv, "layer")
    x = WeightedSum.of("x", Window.identity(1), "tensor")
    total = layer.plus(x)
    assert total.noise == 9 * WEIGHT_ROUNDING
    assert total.rewritten().noise == 4 * 9 * WEIGHT_ROUNDING  # the tap in the middle is 2
    assert x.minus(layer).noise == 9 * WEIGHT_ROUNDING + 9 * TENSOR_ROUNDING


@pytest.mark.fast
def test_sums_of_three_tensors_are_left_as_they_are():
    parts = [WeightedSum.of(name, Window.identity(1), "tensor") for name in "abc"]
    assert parts[0].plus(parts[1]).plus(parts[2]).rewritten() is None
