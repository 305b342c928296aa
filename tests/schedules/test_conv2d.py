"""Regular convolution: equal to NumPy on every flavour, by default and sampled; clear refusals."""

import re
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.ir import assert_structural_equal
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.f32 import CONV2D_F32
from schedules.cpu.plain import CONV2D_PLAIN
from schedules.spec import Conv2d
from schedules.template import ScheduleError
from schedules.x86.avx2 import CONV2D_AVX2
from schedules.x86.avxvnni import CONV2D_AVXVNNI
from schedules.x86.vnni import CONV2D_VNNI
from tests.schedules.convolution_checks import assert_equal
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import WANTED, run_template

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
SKYLAKE = Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})
ALDERLAKE = Target({"kind": "llvm", "mcpu": "alderlake", "num-cores": 2})
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})

BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 32,
    "height": 7,
    "width": 7,
    "out_channels": 48,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "uint8",
}
CASES: dict[str, dict[str, Any]] = {
    "same": {"y": "int8"},
    "pointwise": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "width": 17, "height": 3},
    "pointwise_strided": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "strides": (2, 2)},
    "wide": {"width": 50, "height": 3},
    "wide_ragged": {"kernel": (3, 3), "padding": (0, 0, 0, 0), "width": 73, "height": 4},
    "wide_asymmetric": {"width": 49, "height": 3, "kernel": (3, 5), "padding": (1, 2, 0, 3)},
    "padded_past_the_kernel": {"kernel": (1, 1), "padding": (2, 1, 1, 2)},
    "strided_dilated": {"strides": (2, 2), "dilation": (2, 1), "padding": (1, 2, 0, 1)},
    "dilated_wide": {"dilation": (3, 6), "padding": (3, 6, 2, 5), "width": 45},
    "dilated_past_unrolling": {
        "dilation": (2, 9),
        "padding": (2, 9, 2, 9),
        "width": 141,
        "height": 2,
    },
    "ragged_channels": {"in_channels": 20, "out_channels": 40},
    "few_channels": {"in_channels": 5, "out_channels": 3},
    "one_pixel": {"height": 1, "width": 1},
    "tall": {"kernel": (7, 1), "padding": (3, 0, 3, 0), "batch": 2},
    "flat": {"kernel": (1, 7), "padding": (0, 3, 0, 3), "height": 2, "width": 17},
    "residual_u8": {"residual": "uint8", "out_channels": 40},
    "residual_s8_leaky": {"residual": "int8", "leaky": True, "y": "int8"},
    "leaky_float": {"y": "float32", "leaky": True, "out_channels": 40},
    "residual_float": {"y": "float32", "residual": "uint8"},
    "groups": {"groups": 2, "in_channels": 64, "out_channels": 32, "kernel": (1, 3)},
}
FLOAT_CASES = {
    **{name: CASES[name] for name in ("same", "wide_asymmetric", "ragged_channels", "groups")},
    "residual": {"residual": "float32", "out_channels": 40},
    "residual_leaky": {"residual": "float32", "leaky": True},
    "leaky_sum": {"residual": "float32", "leaky": True, "sum_first": True},
}
BATCH = tirx.Var("n", "int64")


def spec_of(case: dict[str, Any], **types: Any) -> Conv2d:
    return Conv2d(**(BASE | case | types))


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", CASES)
def test_vnni(case):
    assert_equal(CONV2D_VNNI, spec_of(CASES[case]), VNNI)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", ["same", "pointwise", "wide_asymmetric", "groups", "one_pixel"])
def test_vnni_sampled(case):
    for seed in (1, 2, 3):
        assert_equal(CONV2D_VNNI, spec_of(CASES[case]), VNNI, seed)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("seed", [None, 1])
def test_symbolic_batch(seed):
    spec = spec_of({"residual": "uint8"}, batch=BATCH)
    for batch in (1, 3):
        assert_equal(CONV2D_VNNI, spec, VNNI, seed, batch)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("case", CASES)
def test_avx2(case):
    assert_equal(CONV2D_AVX2, spec_of(CASES[case]), HASWELL)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("case", ["same", "wide_asymmetric", "few_channels", "leaky_float"])
def test_avx2_signed(case):
    assert_equal(CONV2D_AVX2, spec_of(CASES[case], x="int8"), HASWELL)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("case", ["same", "pointwise", "wide_asymmetric", "groups", "one_pixel"])
def test_avx2_sampled(case):
    for seed in (1, 2, 3):
        assert_equal(CONV2D_AVX2, spec_of(CASES[case]), HASWELL, seed)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("seed", [None, 1])
def test_avx2_symbolic_batch(seed):
    spec = spec_of({"residual": "uint8"}, batch=BATCH)
    for batch in (1, 3):
        assert_equal(CONV2D_AVX2, spec, HASWELL, seed, batch)


@pytest.mark.isa("avx512bw")
@pytest.mark.parametrize("x", ["uint8", "int8"])
def test_avx2_joined_to_512_bits(x):
    assert_equal(CONV2D_AVX2, spec_of(CASES["wide_asymmetric"], x=x), SKYLAKE)


@pytest.mark.isa("avx_vnni")
def test_avxvnni():
    assert_equal(CONV2D_AVXVNNI, spec_of(CASES["wide_asymmetric"]), ALDERLAKE)


@pytest.mark.fast
def test_avxvnni_instruction():
    """The instruction also where the CPU that runs this test has none."""
    spec = spec_of(CASES["same"])
    sch = Schedule(CONV2D_AVXVNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    CONV2D_AVXVNNI.default(sch, spec, ALDERLAKE)
    assembly = tvm.compile(sch.mod, target=ALDERLAKE).mod.inspect_source("asm")
    assert re.search(r"vpdpbusd\s.*%ymm", assembly)
    assert "%zmm" not in assembly


@pytest.mark.parametrize("x", ["uint8", "int8"])
@pytest.mark.parametrize("case", ["same", "wide_asymmetric", "residual_s8_leaky", "groups"])
def test_plain(case, x):
    assert_equal(CONV2D_PLAIN, spec_of(CASES[case], x=x), GENERIC)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_f32(case):
    spec = spec_of(FLOAT_CASES[case], x="float32", y="float32")
    arrays = random_arrays(spec, np.random.default_rng(1))
    y, sampled = (run_template(CONV2D_F32, spec, VNNI, arrays, seed) for seed in (None, 1))
    np.testing.assert_allclose(y, reference(spec, arrays), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(sampled, y)  # tiles do not change the order of a sum


def test_sixteen_lanes_equal_one_pixel_at_a_time():
    """Batch and neighbours do not change a float result: calibration relies on it."""
    spec = spec_of(CASES["same"], x="float32", y="float32", batch=BATCH)
    arrays = random_arrays(spec, np.random.default_rng(1), batch=2)
    both = run_template(CONV2D_F32, spec, GENERIC, arrays)
    alone = run_template(CONV2D_F32, spec, GENERIC, {**arrays, "x": arrays["x"][1:]})
    np.testing.assert_array_equal(both[1:], alone)


@pytest.mark.fast
@pytest.mark.isa("avx2")
def test_extremes_of_x_and_w():
    """The largest products neither saturate nor wrap."""
    spec = spec_of({"kernel": (1, 1), "padding": (0, 0, 0, 0)}, y="float32")
    arrays = random_arrays(spec, np.random.default_rng(1))
    arrays["x"][:], arrays["w"][:] = 255, -128
    arrays["clamp"] = np.array([-3e38, 3e38], "float32")
    for template, target in ((CONV2D_AVX2, HASWELL), (CONV2D_PLAIN, GENERIC)):
        y = run_template(template, spec, target, arrays)
        np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "case", "target", "reason"),
    [
        (CONV2D_VNNI, {}, Target("c"), "target is c, not llvm"),
        (CONV2D_VNNI, {}, HASWELL, "target cpu haswell lacks avx512vnni"),
        (CONV2D_VNNI, {"x": "int8"}, VNNI, "x is int8, not uint8"),
        (CONV2D_AVX2, {}, GENERIC, "target cpu x86-64 lacks avx2"),
        (CONV2D_PLAIN, {"x": "float32"}, GENERIC, "x is float32, not uint8 or int8"),
        (CONV2D_VNNI, {"groups": 4}, VNNI, "groups of 8 -> 12 channels; want multiples of 16"),
        (CONV2D_VNNI, {"groups": 2}, VNNI, "groups of 16 -> 24 channels; want multiples of 16"),
        (CONV2D_F32, {"x": "float32"}, GENERIC, "x is float32 and y uint8; quantize apart"),
        (
            CONV2D_PLAIN,
            {"residual": "float32"},
            GENERIC,
            "x is uint8 and the residual float32; both must be floats, or integers",
        ),
        (CONV2D_VNNI, {}, VNNI, None),
    ],
)
def test_refuses(template, case, target, reason):
    assert template.refuses(spec_of(case), target) == reason


@pytest.mark.fast
def test_one_traced_sample_is_replayed():
    """What tuning stores is the trace: it must rebuild the same loops from the kernel alone."""
    spec = spec_of(CASES["wide_asymmetric"])
    sampled, replayed = (Schedule(CONV2D_PLAIN.kernel(spec, WANTED), seed=1) for _ in range(2))
    CONV2D_PLAIN.space(sampled, spec, GENERIC)
    sampled.trace.apply_to_schedule(replayed, remove_postproc=False)
    assert_structural_equal(sampled.mod, replayed.mod)


@pytest.mark.fast
def test_scheduling_twice_says_so():
    spec = spec_of({})
    sch = Schedule(CONV2D_PLAIN.kernel(spec, WANTED))
    CONV2D_PLAIN.default(sch, spec, GENERIC)
    with pytest.raises(ScheduleError, match="schedule it once"):
        CONV2D_PLAIN.default(sch, spec, GENERIC)


@pytest.mark.fast
def test_layers_of_equal_shape_are_one_kernel():
    """Constants are arguments: zero points and multipliers do not change the kernel."""
    text = [CONV2D_VNNI.kernel(spec_of({}), WANTED).script() for _ in range(2)]
    assert text[0] == text[1]
    assert '"template": "conv2d_vnni"' in text[0]
