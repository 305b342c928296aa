"""Convolutions to a few channels: equal to NumPy, and chosen where they are less work."""

from typing import Any

import pytest
from tvm import tirx
from tvm.target import Target

from schedules.selection import select
from schedules.spec import Conv2d
from schedules.x86.conv2d_narrow import CONV2D_NARROW_VNNI, Geometry
from schedules.x86.vnni import CONV2D_STEM_VNNI, CONV2D_VNNI
from tests.schedules.convolution_checks import assert_equal, assert_same_epilogue

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
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
}


def spec_of(case: dict[str, Any], **types: Any) -> Conv2d:
    return Conv2d(**(BASE | case | types))


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", CASES)
def test_equal_to_numpy(case):
    assert_equal(CONV2D_NARROW_VNNI, spec_of(CASES[case]), VNNI)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("epilogue", [{"activation": "swish"}, {"requantize": "tflite"}])
def test_epilogues_are_those_of_other_convolutions(epilogue):
    assert_same_epilogue(CONV2D_NARROW_VNNI, CONV2D_VNNI, spec_of({"y": "uint8"}), VNNI, epilogue)


@pytest.mark.isa("avx512_vnni")
def test_symbolic_batch():
    spec = spec_of({"residual": "uint8"}, batch=tirx.Var("n", "int64"))
    for batch in (1, 3):
        assert_equal(CONV2D_NARROW_VNNI, spec, VNNI, batch=batch)


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


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "template"),
    [
        ({}, CONV2D_NARROW_VNNI),
        ({"out_channels": 16}, CONV2D_VNNI),
        ({"in_channels": 3}, CONV2D_STEM_VNNI),
    ],
)
def test_few_channels_take_it(change, template):
    assert select(spec_of(change), VNNI) == template


@pytest.mark.fast
def test_rows_of_a_task_fit_the_cache():
    large = spec_of({"in_channels": 512, "height": 300, "width": 300})
    assert Geometry.of(large).rows == 1
    assert Geometry.of(spec_of({"height": 300, "width": 300})).rows == 8
