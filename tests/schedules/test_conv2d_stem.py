"""The RGB stem: equal to NumPy on every flavour, reading NHWC; clear refusals."""

from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.f32 import CONV2D_STEM_F32
from schedules.cpu.plain import CONV2D_STEM_PLAIN
from schedules.spec import Conv2d
from schedules.x86.avx2 import CONV2D_STEM_AVX2
from schedules.x86.vnni import CONV2D_STEM_VNNI
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import run_template

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})

BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 3,
    "height": 23,
    "width": 21,
    "out_channels": 32,
    "kernel": (7, 7),
    "strides": (2, 2),
    "padding": (3, 3, 3, 3),
    "x": "uint8",
    "y": "uint8",
}
CASES: dict[str, dict[str, Any]] = {
    "7x7": {},
    "grey": {"in_channels": 1, "kernel": (3, 3), "strides": (1, 1), "padding": (0, 0, 0, 0)},
    "asymmetric": {
        "batch": tirx.Var("n", "int64"),
        "padding": (1, 0, 2, 3),
        "dilation": (2, 1),
        "out_channels": 20,
    },
    "residual": {"kernel": (3, 3), "padding": (1, 1, 1, 1), "residual": "uint8"},
    "one_pixel": {"height": 1, "width": 1, "kernel": (3, 3), "padding": (1, 1, 1, 1)},
    "pointwise": {"in_channels": 4, "kernel": (1, 1), "padding": (0, 0, 0, 0)},
}


def spec_of(case: str, **types: Any) -> Conv2d:
    return Conv2d(**(BASE | CASES[case] | types))


def assert_equal(template, spec, target, seed=None) -> None:
    arrays = random_arrays(spec, np.random.default_rng(1), batch=2)
    y = run_template(template, spec, target, arrays, seed)
    np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", CASES)
def test_vnni(case):
    for seed in (None, 1):
        assert_equal(CONV2D_STEM_VNNI, spec_of(case), VNNI, seed)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("case", CASES)
def test_avx2(case):
    for seed, x in ((None, "uint8"), (1, "int8")):
        assert_equal(CONV2D_STEM_AVX2, spec_of(case, x=x), HASWELL, seed)


@pytest.mark.parametrize("case", ["7x7", "asymmetric"])
def test_plain(case):
    assert_equal(CONV2D_STEM_PLAIN, spec_of(case, x="int8"), GENERIC)


@pytest.mark.parametrize("case", ["7x7", "asymmetric", "one_pixel"])
def test_f32(case):
    spec = spec_of(case, x="float32", y="float32")
    arrays = random_arrays(spec, np.random.default_rng(1), batch=2)
    y, sampled = (run_template(CONV2D_STEM_F32, spec, GENERIC, arrays, seed) for seed in (None, 2))
    np.testing.assert_allclose(y, reference(spec, arrays), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(sampled, y)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ({"in_channels": 5}, "5 input channels; a stem has at most 4"),
        ({"in_channels": 4, "groups": 2}, "2 groups; a stem has one"),
        (
            {"dilation": (1, 2)},
            "dilation 2 along the width; the taps of a row are not one run",
        ),
        ({"x": "int8"}, "x is int8, not uint8"),
        ({}, None),
    ],
)
def test_refuses(case, reason):
    assert CONV2D_STEM_VNNI.refuses(Conv2d(**(BASE | case)), VNNI) == reason
