"""Functions of float32: near the real ones, and the same bits everywhere."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from schedules.layout import NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.spec import Gelu, Sigmoid
from schedules.targets import named_target
from tests.oracle.functions import gelu, sigmoid
from tests.schedules.any_layout_runs import check


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function, its oracle, and the error of its definition against the real function."""

    spec: type[Sigmoid] | type[Gelu]
    oracle: Callable[[np.ndarray], np.ndarray]
    real: Callable[[float], float]
    sizes: tuple[int, ...]
    bound: float
    of_x: bool = False  # whether the bound grows with x
    ends: float = np.inf  # what is farther from zero is moved there

    def values(self, *dims: int) -> np.ndarray:
        """Return numbers near zero and far, and the ends."""
        return np.clip(values(*dims), -self.ends, self.ends)


def values(*dims: int) -> np.ndarray:
    """Return numbers near zero and far, and infinities."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=dims) * np.exp(rng.normal(0, 2, dims))).astype(np.float32)
    x.flat[:8] = 0.0, -0.0, 87.3, -87.3, 1e30, -1e30, np.inf, -np.inf
    return x


FUNCTIONS = {
    "sigmoid": Function(
        spec=Sigmoid,
        oracle=sigmoid,
        real=lambda v: 1 / (1 + np.exp(-v)),
        sizes=(1, 1, 500, 100),
        bound=1e-7,
    ),
    "gelu": Function(
        spec=Gelu,
        oracle=gelu,
        real=np.vectorize(lambda v: 0.5 * v * math.erfc(-v / math.sqrt(2))),
        sizes=(1, 1, 100, 50),
        bound=3e-7,
        of_x=True,
        ends=1e15,
    ),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_near_the_real_function(name):
    function = FUNCTIONS[name]
    x = function.values(*function.sizes)
    found = reference(function.spec(dims=x.shape), {"x": x}, {})
    with np.errstate(over="ignore"):
        real = function.real(x.astype(np.float64))
    scale = np.maximum(np.abs(x), 1) if function.of_x else 1
    assert (np.abs(found - real) / scale).max() < function.bound
    np.testing.assert_array_equal(found, function.oracle(x))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
        pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
        "x86",
    ],
)
def test_equals_reference(name, target):
    spec = FUNCTIONS[name].spec(dims=(2, 20, 9, 7))
    tensors = {"x": FUNCTIONS[name].values(*spec.dims)}
    check(spec, {}, (ROW,), NCHW16C, named_target(target), tensors)
    check(spec, {}, (NCHW16C,), target=named_target(target), tensors=tensors)
