"""Patches of some positions, sums of patches, exact products of integers: all against plain ones."""

import numpy as np
import pytest

from relay_int8.operators.images import EXACT_F32, integer_product
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.network import NumpyNetwork
from tests.small_networks import NETWORKS, images

F = np.float32


@pytest.mark.fast
@pytest.mark.parametrize("name", NETWORKS)
def test_samples_and_sums_are_those_of_all_patches(name):
    mod = NETWORKS[name]()
    network = NumpyNetwork(mod)
    x = np.concatenate(images(mod, 3))
    tensors = {"x": x, **network.run({"x": x}, keep=lambda _: True)}
    for group in network.groups:
        if group.weight is None:
            continue
        layer, values = linear_of(group), tensors[str(group.inputs[0].name)]
        patches = layer.patches(group, values).transpose(1, 2, 0, 3)
        patches = patches.reshape(*patches.shape[:2], -1)
        assert patches.shape[2] == 3 * layer.positions(group)
        sums = layer.patch_sums(group, values)
        np.testing.assert_allclose(sums, patches.sum(axis=2, dtype=np.float64), 1e-9, 1e-9)
        picked = np.arange(patches.shape[2])[::3]
        found = layer.sampled_patches(group, values, picked)
        np.testing.assert_array_equal(found, patches[:, :, picked])


@pytest.mark.fast
@pytest.mark.parametrize("k", [1, 9, 500, 3000])
def test_products_of_integers_are_exact(k):
    rng = np.random.default_rng(k)
    a = rng.integers(-127, 128, (5, k)).astype(F)
    b = rng.integers(0, 256, (k, 7)).astype(F)
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    bound = float(np.abs(a).sum(axis=1).max()) * 255
    assert (bound < EXACT_F32) == (k < 1000)
    np.testing.assert_array_equal(integer_product(a, b, bound), wanted.astype(F))


@pytest.mark.fast
def test_the_bound_is_tight():
    a, b = np.full((1, 518), 127, F), np.full((518, 1), 255, F)
    assert 127 * 255 * 518 < EXACT_F32 <= 127 * 255 * 519
    assert integer_product(a, b, 127 * 255 * 518) == 127 * 255 * 518
