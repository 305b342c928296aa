"""Convolutions to a few channels: equal to NumPy, and chosen where they are less work."""

from dataclasses import replace
from typing import Any

import pytest
from tvm import tirx
from tvm.target import Target

from schedules.bodies.vectors import cast
from schedules.cpu.contractions.conv2d_narrow import narrow_template
from schedules.cpu.contractions.narrow_tiles import Geometry
from schedules.selection import select
from schedules.spec import Conv2d
from schedules.x86.avx2 import CONV2D_AVX2, CONV2D_STEM_AVX2
from schedules.x86.conv2d_narrow import (
    AVX2_NARROW,
    CONV2D_NARROW_AVX2,
    CONV2D_NARROW_VNNI,
    VNNI_NARROW,
)
from schedules.x86.vnni import CONV2D_STEM_VNNI, CONV2D_VNNI
from tests.schedules.convolution_checks import assert_equal, assert_same_epilogue

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
NEHALEM = Target({"kind": "llvm", "mcpu": "nehalem", "num-cores": 2})
PLAIN = Target({"kind": "llvm", "num-cores": 2})
NARROW = [
    pytest.param(CONV2D_NARROW_VNNI, CONV2D_VNNI, VNNI, marks=pytest.mark.isa("avx512_vnni")),
    pytest.param(CONV2D_NARROW_AVX2, CONV2D_AVX2, HASWELL, marks=pytest.mark.isa("avx2")),
]
"""Each template, the one of other convolutions, and a target that has both."""
BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 32,
    "height": 5,
    "width": 20,
    "out_channels": 3,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "float32",
}
CASES: dict[str, dict[str, Any]] = {
    "border": {},
    "one_channel": {"out_channels": 1, "y": "uint8"},
    "six_channels": {"out_channels": 6, "y": "int8", "leaky": True},
    "large_kernel": {"kernel": (7, 7), "padding": (3, 3, 3, 3), "height": 3, "width": 17},
    "no_border": {"padding": (0, 0, 0, 0), "height": 6, "width": 18},
    "single_pixels": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "height": 3, "width": 7},
    "rows_of_single_pixels": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "height": 17},
    "single_pixels_with_border": {"kernel": (1, 1), "padding": (1, 0, 2, 0), "width": 16},
    "padding_of_its_own": {"padding": (0, 2, 1, 0), "width": 16},
    "far_padding": {"padding": (9, 9, 9, 9), "height": 1, "width": 1, "in_channels": 16},
    "dilated": {"dilation": (2, 3), "padding": (2, 3, 2, 3)},
    "ragged_channels": {"in_channels": 41},
    "several_tasks": {"height": 37, "width": 16, "out_channels": 1, "in_channels": 16},
    "batch": {"batch": 2, "in_channels": 16},
    "residual_leaky": {"residual": "int8", "leaky": True, "y": "int8"},
    "five_channels": {"out_channels": 5, "padding": (0, 0, 0, 0), "height": 9, "width": 41},
}


def spec_of(case: dict[str, Any], **types: Any) -> Conv2d:
    return Conv2d(**(BASE | case | types))


@pytest.mark.parametrize(("template", "_other", "target"), NARROW)
@pytest.mark.parametrize("case", CASES)
def test_equal_to_numpy(case, template, _other, target):
    assert_equal(template, spec_of(CASES[case]), target)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("case", ["border", "no_border", "single_pixels", "six_channels"])
def test_signed_x(case):
    assert_equal(CONV2D_NARROW_AVX2, spec_of(CASES[case], x="int8"), HASWELL)


def plain_step(acc, x, w):
    """What vpdpbusd does, in arithmetic that any CPU has."""
    for k in range(4):
        lanes = list(range(k, 64, 4))
        acc = acc + cast(tirx.Shuffle([x], lanes), "int32") * cast(
            tirx.Shuffle([w], lanes), "int32"
        )
    return acc


@pytest.mark.parametrize("case", CASES)
def test_four_products_a_lane_on_any_cpu(case):
    lanes = VNNI_NARROW.lanes
    lanes = replace(lanes, dot=replace(lanes.dot, feature=None), step=plain_step)
    assert_equal(narrow_template(replace(VNNI_NARROW, lanes=lanes)), spec_of(CASES[case]), PLAIN)


@pytest.mark.parametrize(("template", "other", "target"), NARROW)
@pytest.mark.parametrize("epilogue", [{"activation": "swish"}, {"requantize": "tflite"}])
def test_epilogues_are_those_of_other_convolutions(epilogue, template, other, target):
    assert_same_epilogue(template, other, spec_of({"y": "uint8"}), target, epilogue)


@pytest.mark.parametrize(("template", "_other", "target"), NARROW)
def test_symbolic_batch(template, _other, target):
    spec = spec_of({"residual": "uint8"}, batch=tirx.Var("n", "int64"))
    for batch in (1, 3):
        assert_equal(template, spec, target, batch=batch)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"strides": (2, 2)}, "want neighbouring pixels"),
        ({"groups": 2, "out_channels": 4}, "1 group"),
        ({"out_channels": 7}, "7 output channels; want at most 6"),
        ({"width": 15}, "rows of 15 pixels; want at least 16"),
        ({"x": "float32", "y": "float32"}, "x is float32"),
    ],
)
def test_refusals(change, reason):
    assert reason in CONV2D_NARROW_VNNI.refuses(spec_of(change), VNNI)


@pytest.mark.fast
def test_a_cpu_without_the_instruction_is_refused():
    assert "lacks avx512vnni" in CONV2D_NARROW_VNNI.refuses(spec_of({}), HASWELL)
    assert "lacks avx2" in CONV2D_NARROW_AVX2.refuses(spec_of({}), NEHALEM)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "of_vnni", "of_avx2"),
    [
        ({}, CONV2D_NARROW_VNNI, CONV2D_NARROW_AVX2),
        ({"out_channels": 16, "strides": (2, 2)}, CONV2D_VNNI, CONV2D_AVX2),
        ({"in_channels": 3}, CONV2D_STEM_VNNI, CONV2D_STEM_AVX2),
    ],
)
def test_few_channels_take_it(change, of_vnni, of_avx2):
    assert select(spec_of(change), VNNI) == of_vnni
    assert select(spec_of(change), HASWELL) == of_avx2


@pytest.mark.fast
def test_rows_of_a_task_fit_the_cache():
    large = spec_of({"in_channels": 512, "height": 300, "width": 300})
    assert Geometry.of(large, VNNI_NARROW).rows == 1
    assert Geometry.of(spec_of({"height": 300, "width": 300}), VNNI_NARROW).rows == 8
    many = spec_of({"in_channels": 128, "height": 300, "width": 300})
    assert (Geometry.of(many, VNNI_NARROW).rows, Geometry.of(many, AVX2_NARROW).rows) == (4, 1)


@pytest.mark.fast
def test_sums_stay_in_registers():
    assert [VNNI_NARROW.together(channels) for channels in (1, 6)] == [4, 4]
    assert [AVX2_NARROW.together(channels) for channels in (1, 2, 3, 6)] == [4, 2, 2, 1]


@pytest.mark.fast
def test_x_is_read_where_it_lies():
    valid = {"padding": (0, 0, 0, 0)}
    assert Geometry.of(spec_of(valid), VNNI_NARROW).copied is None
    assert Geometry.of(spec_of(valid), AVX2_NARROW).copied == "int16"
    assert Geometry.of(spec_of(valid | {"kernel": (1, 1)}), AVX2_NARROW).copied is None
