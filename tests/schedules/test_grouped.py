"""Grouped templates: exact against NumPy on ragged shapes, clear when they refuse."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.windows.grouped import GROUPED_F32, GROUPED_PLAIN, pack_groups, select_order
from schedules.x86.grouped_avx2 import GROUPED_AVX2
from schedules.x86.grouped_vnni import GROUPED_VNNI
from tests.schedules.conv_runs import assert_equal, conv

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake"})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell"})
PLAIN = Target({"kind": "llvm", "mcpu": "x86-64"})
KERNELS = [
    pytest.param(GROUPED_VNNI, VNNI, id="vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param(GROUPED_AVX2, HASWELL, id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(GROUPED_PLAIN, PLAIN, id="plain"),
]
SHAPES = {
    "4": conv(32, (6, 8), groups=8),
    "4_ragged": conv(20, (5, 7), groups=5),
    "8": conv(32, (6, 6), groups=4),
    "8_ragged": conv(24, (5, 3), groups=3),
    "2": conv(18, (4, 5), groups=9),
    "stride2": conv(32, (9, 8), groups=8, strides=(2, 2)),
    "uneven": conv(
        24, (9, 8), groups=3, kernel=(1, 3), strides=(1, 2), padding=(0, 2, 1, 1), dilation=(1, 2)
    ),
    "1x1": conv(16, (1, 1), groups=4, kernel=(1, 1), padding=(0, 0, 0, 0)),
    "batch": conv(16, (3, 3), groups=2, batch=3),
}
EPILOGUES = {
    "residual": {"residual": "uint8"},
    "residual_s8": {"residual": "int8", "y": "int8"},
    "leaky": {"leaky": True},
    "float": {"y": "float32"},
    "float_residual": {"y": "float32", "residual": "uint8"},
}


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_shapes(template, target, spec):
    assert_equal(template, spec, target)


@pytest.mark.fast
@pytest.mark.parametrize("fields", EPILOGUES.values(), ids=EPILOGUES)
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_epilogues(template, target, fields):
    assert_equal(template, conv(20, (3, 4), groups=5, **fields), target)


@pytest.mark.parametrize(("template", "target"), KERNELS[1:])
def test_signed(template, target):
    assert_equal(template, conv(24, (4, 3), groups=3, x="int8", y="int8"), target)


@pytest.mark.parametrize("fields", [{}, {"leaky": True}, {"residual": "float32"}])
@pytest.mark.parametrize("shape", ["4", "4_ragged", "8_ragged", "2", "uneven"])
def test_float32(shape, fields):
    spec = dataclasses.replace(SHAPES[shape], x="float32", y="float32", **fields)
    assert_equal(GROUPED_F32, spec, HASWELL)


@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("shape", ["4", "8_ragged"])
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_space(template, target, shape, seed):
    assert_equal(template, SHAPES[shape], target, template.space, seed=seed)


@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_symbolic_batch(template, target):
    spec = conv(16, (3, 4), groups=4, batch=tirx.Var("batch", "int64"), residual="uint8")
    assert_equal(template, spec, target, batch=3)


def test_lanes_select_their_own_group():
    assert select_order(8, 4, 1)[32:40] == [12, 13, 14, 15, 12, 13, 14, 15]
    assert select_order(4, 1, 3) == [3] * 4 + [7] * 4 + [11] * 4 + [15] * 4


def test_pack_clears_weights_of_neighbouring_groups():
    packed = pack_groups(np.ones((16, 2, 1, 1), np.int8), 2, 4).reshape(16, 4)
    assert packed[:4].tolist() == [[1, 1, 0, 0]] * 2 + [[0, 0, 1, 1]] * 2


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "spec", "target", "reason"),
    [
        (GROUPED_VNNI, SHAPES["4"], Target("c"), "target is c, not llvm"),
        (GROUPED_VNNI, SHAPES["4"], HASWELL, "target cpu haswell lacks avx512vnni"),
        (GROUPED_AVX2, SHAPES["4"], PLAIN, "target cpu x86-64 lacks avx2"),
        (
            GROUPED_VNNI,
            conv(16, (4, 4), groups=4, x="int8"),
            VNNI,
            "x is int8, not uint8",
        ),
        (
            GROUPED_AVX2,
            conv(16, (4, 4), groups=4, x="float32", y="float32"),
            HASWELL,
            "x is float32, not uint8 or int8",
        ),
        (
            GROUPED_PLAIN,
            conv(16, (4, 4), groups=4, x="float32", y="float32"),
            PLAIN,
            "x is float32, not uint8 or int8",
        ),
        (GROUPED_F32, SHAPES["4"], PLAIN, "x is uint8, not float32"),
        (
            GROUPED_VNNI,
            conv(32, (4, 4), groups=2),
            VNNI,
            "groups have 16 channels in and 16 out, not 2, 4 or 8 of both",
        ),
        (
            GROUPED_PLAIN,
            conv(16, (4, 4), groups=4, out_channels=32),
            PLAIN,
            "groups have 4 channels in and 8 out, not 2, 4 or 8 of both",
        ),
        (
            GROUPED_PLAIN,
            conv(16, (16, 16), groups=2, kernel=(7, 7)),
            PLAIN,
            "kernel (7, 7) makes 392 taps; the limit is 256",
        ),
        (
            GROUPED_F32,
            conv(16, (4, 4), groups=4, x="float32"),
            PLAIN,
            "x is float32 and y uint8; quantize apart",
        ),
        (
            GROUPED_PLAIN,
            conv(16, (4, 4), groups=4, residual="float32"),
            PLAIN,
            "x is uint8 and the residual float32; both must be floats, or integers",
        ),
        (GROUPED_VNNI, SHAPES["4"], VNNI, None),
    ],
)
def test_refuses(template, spec, target, reason):
    assert template.refuses(spec, target) == reason
