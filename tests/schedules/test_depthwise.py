"""Depthwise templates: exact against NumPy on ragged shapes, clear when they refuse."""

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.windows.depthwise import (
    DEPTHWISE_F32,
    DEPTHWISE_PLAIN,
    pack_taps,
    window_kernel_of,
    windows_of,
)
from schedules.cpu.windows.window_tiles import WindowTiles, apply, default_tiles
from schedules.template import ScheduleError
from schedules.x86.depthwise_avx2 import DEPTHWISE_AVX2
from schedules.x86.depthwise_vnni import DEPTHWISE_VNNI
from schedules.x86.lanes import VNNI_LANES
from tests.schedules.conv_runs import WANTED, assert_equal, build, conv

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake"})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell"})
PLAIN = Target({"kind": "llvm", "mcpu": "x86-64"})
KERNELS = [
    pytest.param(DEPTHWISE_VNNI, VNNI, id="vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param(DEPTHWISE_AVX2, HASWELL, id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(DEPTHWISE_PLAIN, PLAIN, id="plain"),
]
SHAPES = {
    "even": conv(32, (8, 12)),
    "ragged": conv(20, (7, 9)),
    "stride2": conv(16, (9, 12), strides=(2, 2)),
    "uneven": conv(24, (11, 8), kernel=(5, 3), strides=(1, 2), padding=(0, 2, 3, 1)),
    "5x5": conv(16, (7, 12), kernel=(5, 5), padding=(2, 2, 2, 2)),
    "5x5s2": conv(16, (8, 8), kernel=(5, 5), strides=(2, 2), padding=(1, 1, 2, 2)),
    "7x7": conv(16, (7, 7), kernel=(7, 7), padding=(3, 3, 3, 3)),
    "dilated": conv(16, (9, 9), dilation=(2, 2), padding=(2, 2, 2, 2)),
    "atrous": conv(16, (9, 9), dilation=(6, 6), padding=(6, 6, 6, 6)),
    "pixel": conv(3, (1, 1)),
    "unpadded": conv(16, (6, 6), padding=(0, 0, 0, 0)),
    "row": conv(17, (1, 9), kernel=(1, 3), padding=(0, 1, 0, 1)),
    "batch": conv(40, (5, 5), batch=3),
}
EPILOGUES = {
    "residual": {"residual": "uint8"},
    "residual_s8": {"residual": "int8", "y": "int8"},
    "leaky": {"leaky": True},
    "float": {"y": "float32"},
    "float_residual": {"y": "float32", "residual": "uint8"},
}
"""All of a ragged shape."""
FLOAT = conv(16, (4, 4), x="float32", y="float32")


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_shapes(template, target, spec):
    assert_equal(template, spec, target)


@pytest.mark.fast
@pytest.mark.parametrize("fields", EPILOGUES.values(), ids=EPILOGUES)
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_epilogues(template, target, fields):
    assert_equal(template, conv(20, (4, 6), **fields), target)


@pytest.mark.parametrize(("template", "target"), KERNELS[1:])
def test_signed(template, target):
    assert_equal(template, conv(20, (5, 6), x="int8", y="int8"), target)


@pytest.mark.parametrize("fields", [{}, {"leaky": True}, {"residual": "float32"}])
@pytest.mark.parametrize("shape", ["even", "ragged", "uneven", "pixel", "dilated"])
def test_float32(shape, fields):
    spec = dataclasses.replace(SHAPES[shape], x="float32", y="float32", **fields)
    assert_equal(DEPTHWISE_F32, spec, HASWELL)


@pytest.mark.parametrize("seed", range(1, 3))
@pytest.mark.parametrize("shape", ["uneven", "even"])
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_space(template, target, shape, seed):
    assert_equal(template, SHAPES[shape], target, template.space, seed=seed)


@pytest.mark.parametrize("tiles", [(3, 2), (8, 1)])
@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_tiles_need_not_divide(template, target, tiles):
    def tiled(sch, spec, target):
        apply(sch, WindowTiles(*tiles))

    assert_equal(template, conv(20, (7, 10)), target, tiled)


@pytest.mark.parametrize(("template", "target"), KERNELS)
def test_symbolic_batch(template, target):
    spec = conv(20, (5, 6), batch=tirx.Var("batch", "int64"), residual="uint8")
    assert_equal(template, spec, target, batch=3)


def test_float32_symbolic_batch():
    spec = conv(20, (5, 6), batch=tirx.Var("batch", "int64"), x="float32", y="float32")
    assert_equal(DEPTHWISE_F32, spec, HASWELL, batch=2)


def test_window_of_two_pixels_shares_four():
    first, second = windows_of(conv(16, (4, 6)), 4)
    assert [(tap.row, tap.col) for tap in first] == [(0, 0), (1, 0), (2, 0)]
    assert [(tap.row, tap.col) for tap in second] == [(0, 0), (1, 0), (2, 0)]
    assert {tap.vector for tap in first + second} == set(range(6))


def test_avx2_exchanges_no_halves_of_registers():
    spec = conv(32, (14, 14))
    assembly = build(DEPTHWISE_AVX2, spec, HASWELL).executable.inspect_source("s")
    assert assembly.count("vpunpcklwd") > 10
    assert not {"vperm2i128", "vpermq", "vpermd"} & set(assembly.split())


def test_pack_puts_the_taps_of_a_lane_side_by_side():
    spec = conv(16, (3, 4), kernel=(1, 3), padding=(0, 1, 0, 1))
    w = np.tile(np.array([1, 2, 3], np.int8), (16, 1)).reshape(16, 1, 1, 3)
    packed = pack_taps(VNNI_LANES, spec, w)
    assert packed.shape == (1, 2, 64)
    assert packed.reshape(2, 16, 4)[0, 5].tolist() == [1, 2, 3, 0]
    assert packed.reshape(2, 16, 4)[1, 5].tolist() == [0, 1, 2, 3]


def test_equal_shapes_share_a_tuning_key():
    spec = conv(32, (8, 8))
    kernels = [DEPTHWISE_VNNI.kernel(spec, WANTED) for _ in range(2)]
    tvm.ir.assert_structural_equal(*kernels)


def test_schedules_once():
    sch = Schedule(DEPTHWISE_VNNI.kernel(conv(32, (8, 8)), WANTED))
    DEPTHWISE_VNNI.default(sch, conv(32, (8, 8)), VNNI)
    with pytest.raises(ScheduleError, match="schedule a kernel once"):
        DEPTHWISE_VNNI.default(sch, conv(32, (8, 8)), VNNI)


def test_a_traced_sample_is_replayed():
    spec = SHAPES["uneven"]
    sampled, replayed = (Schedule(DEPTHWISE_PLAIN.kernel(spec, WANTED), seed=1) for _ in range(2))
    DEPTHWISE_PLAIN.space(sampled, spec, PLAIN)
    sampled.trace.apply_to_schedule(replayed, remove_postproc=False)
    tvm.ir.assert_structural_equal(sampled.mod, replayed.mod)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("size", "fields", "parallel"),
    [
        ((14, 14), {}, False),
        ((56, 56), {}, True),
        ((14, 14), {"batch": tirx.Var("batch", "int64")}, True),
    ],
)
def test_small_kernels_stay_on_one_thread(size, fields, parallel):
    spec = conv(32, size, **fields)
    sch = Schedule(DEPTHWISE_VNNI.kernel(spec, WANTED))
    DEPTHWISE_VNNI.default(sch, spec, VNNI)
    assert ("T.parallel" in sch.mod.script()) == parallel


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "rows"),
    [
        (conv(32, (112, 112)), 14),
        (conv(32, (19, 19)), 10),
        (conv(32, (7, 7)), 7),
        (conv(32, (112, 112), kernel=(5, 5), padding=(2, 2, 2, 2)), 4),
        (conv(32, (224, 224), strides=(2, 2)), 6),
        (conv(32, (2, 5000)), 1),
    ],
    ids=["even", "ragged", "small", "many_taps", "wide_rows", "widest"],
)
def test_default_tiles(spec, rows):
    kernel = window_kernel_of(VNNI_LANES, "depthwise_vnni", spec)
    assert default_tiles(spec, kernel) == WindowTiles(rows, 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("size", "cores", "rows"),
    [
        ((14, 14), 1, 14),
        ((14, 14), 2, 7),  # one tile for each core
        ((56, 56), 2, 14),  # two already
        ((56, 56), 8, 7),
        ((7, 7), 2, 7),  # not even: channels are shared
        ((14, 14), 7, 14),  # tiles of two rows would copy as much as they compute
    ],
)
def test_cores_share_rows_evenly_or_not_at_all(size, cores, rows):
    spec = conv(32, size)
    kernel = window_kernel_of(VNNI_LANES, "depthwise_vnni", spec)
    assert default_tiles(spec, kernel, cores) == WindowTiles(rows, 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "spec", "target", "reason"),
    [
        (DEPTHWISE_VNNI, conv(16, (4, 4)), Target("c"), "target is c, not llvm"),
        (DEPTHWISE_VNNI, conv(16, (4, 4)), HASWELL, "target cpu haswell lacks avx512vnni"),
        (DEPTHWISE_AVX2, conv(16, (4, 4)), PLAIN, "target cpu x86-64 lacks avx2"),
        (DEPTHWISE_VNNI, conv(16, (4, 4), x="int8"), VNNI, "x is int8, not uint8"),
        (DEPTHWISE_AVX2, FLOAT, HASWELL, "x is float32, not uint8 or int8"),
        (DEPTHWISE_PLAIN, FLOAT, PLAIN, "x is float32, not uint8 or int8"),
        (DEPTHWISE_F32, conv(16, (4, 4)), PLAIN, "x is uint8, not float32"),
        (
            DEPTHWISE_VNNI,
            conv(16, (4, 4), out_channels=32),
            VNNI,
            "groups 16, in_channels 16 and out_channels 32 are not all equal",
        ),
        (
            DEPTHWISE_PLAIN,
            conv(16, (32, 32), kernel=(13, 13)),
            PLAIN,
            "kernel (13, 13) makes 169 taps; the limit is 128",
        ),
        (
            DEPTHWISE_F32,
            conv(16, (4, 4), x="float32"),
            PLAIN,
            "x is float32 and y uint8; quantize apart",
        ),
        (
            DEPTHWISE_PLAIN,
            conv(16, (4, 4), residual="float32"),
            PLAIN,
            "x is uint8 and the residual float32; both must be floats, or integers",
        ),
        (DEPTHWISE_VNNI, conv(16, (4, 4)), VNNI, None),
    ],
)
def test_refuses(template, spec, target, reason):
    assert template.refuses(spec, target) == reason
