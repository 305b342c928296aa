"""dp4a convolution on the emulated GPU: equal to NumPy, by default and sampled; refusals."""

import math
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from schedules.cuda.conv2d_dp4a import CONV2D_DP4A
from schedules.spec import Conv2d
from tests.cuda.emulator import EmulationError, kernels, launch_size
from tests.cuda.run_template import Built, Case, build
from tests.schedules.numpy_kernels import random_arrays, reference

BARRIER = "__syncthreads();"
BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 16,
    "height": 7,
    "width": 7,
    "out_channels": 24,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "uint8",
}
CASES: dict[str, dict[str, Any]] = {
    "same": {"x": "int8", "y": "int8"},
    "several_fetches": {"in_channels": 320, "height": 4, "width": 6},
    "pointwise": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "width": 17, "height": 3, "batch": 2},
    "pointwise_strided": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "strides": (2, 2)},
    "prime_asymmetric": {"width": 23, "height": 11, "kernel": (3, 5), "padding": (1, 2, 0, 3)},
    "padded_past_the_kernel": {"kernel": (1, 1), "padding": (2, 1, 1, 2)},
    "strided_dilated": {"strides": (2, 2), "dilation": (2, 1), "padding": (1, 2, 0, 1)},
    "ragged_channels": {"in_channels": 21, "out_channels": 43, "x": "int8"},
    "few_channels": {"in_channels": 3, "out_channels": 2},
    "one_pixel": {"height": 1, "width": 1},
    "tall": {"kernel": (7, 1), "padding": (3, 0, 3, 0), "batch": 2},
    "residual_u8": {"residual": "uint8", "out_channels": 44, "width": 11},
    "residual_s8_leaky": {"x": "int8", "residual": "int8", "leaky": True, "y": "int8"},
    "leaky_float": {"y": "float32", "leaky": True, "out_channels": 21},
    "groups": {"groups": 4, "in_channels": 32, "out_channels": 48},
    "narrow_groups": {"groups": 8, "in_channels": 32, "out_channels": 32, "x": "int8"},
}


def case_of(name: str) -> Case:
    return Case(spec=Conv2d(**(BASE | CASES[name])), template=CONV2D_DP4A)


def assert_equal(built: Built, name: str) -> None:
    spec = built.cases[name].spec
    arrays = random_arrays(spec, np.random.default_rng(1))
    np.testing.assert_array_equal(built.run(name, arrays), reference(spec, arrays))


@pytest.fixture(scope="module")
def by_default() -> Built:
    return build({case: case_of(case) for case in CASES})


@pytest.mark.parametrize("case", CASES)
def test_default(by_default, case):
    assert_equal(by_default, case)
    assert "__dp4a(" in kernels(by_default.source)[f"{case}_kernel"].body


SAMPLED = ("same", "several_fetches", "pointwise", "prime_asymmetric", "strided_dilated", "groups")


@pytest.mark.parametrize("seed", range(1, 5))
def test_sampled(seed):
    """Points of the space; those whose block is larger than any GPU allows are skipped one by one."""
    built = build({case: case_of(case) for case in SAMPLED}, seed=seed)
    fitting = [case for case in SAMPLED if fits(built.mod[case])]
    for case in fitting:
        assert_equal(built, case)
    assert len(fitting) > 2


def fits(func) -> bool:
    return math.prod(launch_size(func)[3:]) <= 1024


@pytest.mark.parametrize("place", [0, 1])
def test_a_removed_barrier_is_caught(place):
    """Without a barrier, threads read what others have not written, or no longer hold."""

    def without(source: str) -> str:
        parts = source.split(BARRIER)
        assert len(parts) > 2
        kept = [*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :]]
        return BARRIER.join(kept)

    case = case_of("several_fetches")
    arrays = random_arrays(case.spec, np.random.default_rng(1))
    broken = build({"conv": case}, edit=without)
    assert (broken.run("conv", arrays) != reference(case.spec, arrays)).any()


def test_a_barrier_that_some_threads_miss_is_an_error():
    def diverging(source: str) -> str:
        return source.replace(BARRIER, f"if (threadIdx.x > 3) {BARRIER}", 1)

    case = case_of("same")
    broken = build({"conv": case}, edit=diverging)
    with pytest.raises(EmulationError, match="part at a barrier"):
        broken.run("conv", random_arrays(case.spec, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("offset", "message"),
    [(1, "address that the size of the access does not divide"), (1 << 20, "outside of an")],
)
def test_a_wrong_address_is_an_error(offset, message):
    def moved(source: str) -> str:
        return source.replace("(x_ptr + ", f"(x_ptr + {offset} + ")

    case = case_of("same")
    broken = build({"conv": case}, edit=moved)
    with pytest.raises(EmulationError, match=message):
        broken.run("conv", random_arrays(case.spec, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("fields", "target", "reason"),
    [
        ({}, {"kind": "llvm"}, "target is llvm, not cuda"),
        ({}, {"kind": "cuda", "arch": "sm_60"}, "sm_60 has no dp4a"),
        ({"x": "float32", "y": "float32"}, {"kind": "cuda", "arch": "sm_61"}, "x is float32"),
        ({"groups": 8, "out_channels": 16}, {"kind": "cuda", "arch": "sm_61"}, "groups of 2 -> 2"),
        ({"residual": "float32"}, {"kind": "cuda", "arch": "sm_61"}, "both must be floats"),
    ],
)
def test_refusals(fields, target, reason):
    refusal = CONV2D_DP4A.refuses(Conv2d(**(BASE | fields)), Target(target))
    assert refusal is not None and reason in refusal
