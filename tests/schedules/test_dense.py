"""Dense: equal to NumPy on every flavour, ragged k and n included; clear refusals."""

from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.f32 import DENSE_F32
from schedules.cpu.plain import DENSE_PLAIN
from schedules.spec import Dense
from schedules.x86.avx2 import DENSE_AVX2
from schedules.x86.vnni import DENSE_VNNI
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import run_template

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
KERNELS = [
    pytest.param(DENSE_VNNI, VNNI, id="vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param(DENSE_AVX2, HASWELL, id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(DENSE_PLAIN, GENERIC, id="plain"),
]
CASES: dict[str, dict[str, Any]] = {
    "one_step": {"rows": 1, "n": 16, "k": 4, "y": "int8"},
    "classifier": {"rows": 1, "n": 1000, "k": 64, "y": "float32"},
    "ragged": {"rows": 5, "n": 40, "k": 67, "y": "uint8", "leaky": True},
    "few_outputs": {"rows": 3, "n": 2, "k": 10, "y": "int8"},
    "prime_rows": {"rows": 67, "n": 40, "k": 12, "y": "int8"},
    "vocabulary": {"rows": 3, "n": 21851, "k": 4, "y": "float32"},
    "symbolic_rows": {"rows": tirx.Var("n", "int64"), "n": 10, "k": 33, "y": "int8"},
}


def arrays_of(spec: Dense) -> dict[str, np.ndarray]:
    return random_arrays(spec, np.random.default_rng(1), batch=3)


@pytest.mark.parametrize(("template", "target"), KERNELS)
@pytest.mark.parametrize("case", CASES)
def test_default(template, target, case):
    spec = Dense(x="uint8", **CASES[case])
    arrays = arrays_of(spec)
    y = run_template(template, spec, target, arrays)
    np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.parametrize(("template", "target"), KERNELS[:2])
@pytest.mark.parametrize("case", CASES)
def test_sampled(template, target, case):
    spec = Dense(x="uint8", **CASES[case])
    arrays = arrays_of(spec)
    for seed in (1, 2):
        y = run_template(template, spec, target, arrays, seed)
        np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.isa("avx2")
@pytest.mark.parametrize(("template", "target"), KERNELS[1:])
def test_signed_x(template, target):
    spec = Dense(x="int8", **CASES["ragged"])
    arrays = arrays_of(spec)
    y = run_template(template, spec, target, arrays)
    np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.parametrize("case", CASES)
def test_f32(case):
    spec = Dense(x="float32", **{**CASES[case], "y": "float32"})
    arrays = arrays_of(spec)
    y, sampled = (run_template(DENSE_F32, spec, GENERIC, arrays, seed) for seed in (None, 1))
    np.testing.assert_allclose(y, reference(spec, arrays), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(sampled, y)  # tiles do not change the order of a sum


@pytest.mark.fast
@pytest.mark.isa("avx2")
def test_x_ends_where_its_buffer_ends():
    """The last step of a ragged row slides back; a copy with other neighbours gives the same."""
    spec = Dense(rows=2, n=16, k=7, x="uint8", y="float32")
    arrays = arrays_of(spec)
    y = run_template(DENSE_AVX2, spec, HASWELL, arrays)
    arrays["x"][1] = 255
    again = run_template(DENSE_AVX2, spec, HASWELL, arrays)
    np.testing.assert_array_equal(again[0], y[0])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "case", "target", "reason"),
    [
        (DENSE_VNNI, {"k": 3}, VNNI, "k = 3 is less than the 4 elements of a step"),
        (DENSE_VNNI, {"x": "int8"}, VNNI, "x is int8, not uint8"),
        (DENSE_VNNI, {}, HASWELL, "target cpu haswell lacks avx512vnni"),
        (DENSE_PLAIN, {"k": 1}, GENERIC, None),
    ],
)
def test_refuses(template, case, target, reason):
    spec = Dense(**({"rows": 1, "n": 16, "k": 16, "x": "uint8", "y": "uint8"} | case))
    assert template.refuses(spec, target) == reason
