"""The logistic function: near the real one, and the same bits everywhere."""

import numpy as np
import pytest

from schedules.layout import NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.spec import Sigmoid
from schedules.targets import named_target
from tests.oracle.functions import sigmoid
from tests.schedules.any_layout_runs import check

SPEC = Sigmoid(dims=(2, 20, 9, 7))


def values(*dims: int) -> np.ndarray:
    """Return numbers near zero and far, and the ends."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=dims) * np.exp(rng.normal(0, 2, dims))).astype(np.float32)
    x.flat[:8] = 0.0, -0.0, 87.3, -87.3, 1e30, -1e30, np.inf, -np.inf
    return x


@pytest.mark.fast
def test_is_near_the_real_function():
    x = values(1, 1, 500, 100)
    found = reference(Sigmoid(dims=x.shape), {"x": x}, {})
    with np.errstate(over="ignore"):
        real = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert np.abs(found - real).max() < 1e-7
    np.testing.assert_array_equal(found, sigmoid(x))


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
        pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
        "x86",
    ],
)
def test_equals_reference(target):
    tensors = {"x": values(*SPEC.dims)}
    check(SPEC, {}, (ROW,), NCHW16C, named_target(target), tensors)
    check(SPEC, {}, (NCHW16C,), target=named_target(target), tensors=tensors)
