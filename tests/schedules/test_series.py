"""exp, tanh, erf, log, sin and cos of float32: near the real ones, and the same bits everywhere."""

import math

import numpy as np
import pytest
import tvm
from tvm import te

from schedules.bodies.series import FUNCTIONS
from schedules.targets import named_target
from tests.compiled import compiled
from tests.oracle import series as oracle

REAL = {
    "exp": np.exp,
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
}
ULPS = {"exp": 2, "tanh": 3, "erf": 4, "log": 2, "sin": 2, "cos": 2}
GREATEST = {"sin": 2.0**20, "cos": 2.0**20}


def values():
    """Return numbers of every size, where functions change their form, and what is none."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=30000) * np.exp(rng.normal(0, 3, 30000))).astype(np.float32)
    edges = np.array(
        [0, 0.625, 1, 87, 88.7, 88.8, 103, 105, 2**-126, 1e-44, 1e30, np.inf, np.sqrt(0.5)],
        np.float32,
    )
    near = [np.nextafter(edges, np.float32(-1)), edges, np.nextafter(edges, np.float32(np.inf))]
    return np.concatenate([x, *near, *(-e for e in near), [np.float32(np.nan)]])


@pytest.mark.fast
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_near_the_real_function(name):
    x = values()
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        real = REAL[name](x.astype(np.float64))
        wanted = real.astype(np.float32)
    found = getattr(oracle, name)(x)
    x, wanted, real, found = (each[_is_in_range(name, x)] for each in (x, wanted, real, found))
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(found[~finite], wanted[~finite])
    error = np.abs(found[finite].astype(np.float64) - real[finite])
    assert (error <= ULPS[name] * np.spacing(np.abs(wanted[finite]))).all()


def _is_in_range(name, x):
    """Return where a function of x is not that of a nearer number."""
    return ~np.isfinite(x) | (np.abs(x) <= GREATEST.get(name, np.inf))


@pytest.mark.fast
def test_angles_at_multiples_of_quarter_turns_and_beyond_what_floats_tell_apart():
    x = (np.arange(-4000, 4000) * (np.pi / 2)).astype(np.float32)
    for name in ("sin", "cos"):
        real = REAL[name](x.astype(np.float64))
        error = np.abs(getattr(oracle, name)(x) - real)
        assert (error <= 2 * np.spacing(np.abs(real).astype(np.float32))).all()
        far = np.array([2.0**21, 1e30], np.float32)
        np.testing.assert_array_equal(
            getattr(oracle, name)(far), getattr(oracle, name)(np.full(2, 2.0**20, np.float32))
        )


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
        pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
        "x86",
    ],
)
def test_has_the_same_bits_everywhere(name, target):
    x = values()
    a = te.placeholder(x.shape, name="a")
    y = te.compute(x.shape, lambda i: FUNCTIONS[name](a[i].asobject()), name="y")
    func = te.create_prim_func([a, y]).with_attr("global_symbol", name)
    found = tvm.runtime.tensor(np.zeros_like(x))
    compiled(tvm.IRModule({name: func}), named_target(target))[name](tvm.runtime.tensor(x), found)
    np.testing.assert_array_equal(found.numpy(), getattr(oracle, name)(x))
