"""GELU of float32: near the real one, and the same bits everywhere."""

import math

import numpy as np
import pytest

from schedules.layout import NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.spec import Gelu
from schedules.targets import named_target
from tests.oracle.functions import gelu
from tests.schedules.any_layout_runs import check
from tests.schedules.test_sigmoid import values

SPEC = Gelu(dims=(2, 20, 9, 7))


def finite(*dims: int) -> np.ndarray:
    return np.clip(values(*dims), -1e15, 1e15)


@pytest.mark.fast
def test_is_near_the_real_function():
    x = finite(1, 1, 100, 50)
    found = reference(Gelu(dims=x.shape), {"x": x}, {})
    real = np.vectorize(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2)))(x.astype(np.float64))
    assert (np.abs(found - real) / np.maximum(np.abs(x), 1)).max() < 3e-7
    np.testing.assert_array_equal(found, gelu(x))


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
        pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
        "x86",
    ],
)
def test_equals_reference(target):
    tensors = {"x": finite(*SPEC.dims)}
    check(SPEC, {}, (ROW,), NCHW16C, named_target(target), tensors)
    check(SPEC, {}, (NCHW16C,), target=named_target(target), tensors=tensors)
