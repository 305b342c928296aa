"""conv2d_merged: exact against NumPy for groups that fill no blocks of channels."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.contractions.conv2d_any_group import CONV2D_ANY_GROUP
from schedules.cpu.contractions.merged_groups import block_diagonal, even_groups, merged
from schedules.cpu.plain import CONV2D_MERGED_PLAIN, CONV2D_MERGED_PLAIN_WIDE
from schedules.selection import select
from schedules.targets import TARGETS
from schedules.x86.avx2 import CONV2D_MERGED_AVX2, CONV2D_MERGED_AVX2_WIDE
from schedules.x86.vnni import CONV2D_MERGED_VNNI
from tests.schedules.conv_runs import assert_equal, conv
from tests.schedules.test_conv2d_any_group import EPILOGUES

AVX2, PORTABLE = (Target({"kind": "llvm", "mcpu": name}) for name in ("haswell", "x86-64"))
SHAPES = {
    "two of four": conv(96, (5, 6), groups=4),  # groups of 24
    "all of three": conv(36, (4, 5), groups=3, strides=(1, 2)),
    "narrowing": conv(40, (3, 3), out_channels=10, groups=5, padding=(2, 0, 0, 1)),
    "1x1": conv(136, (5, 3), groups=4, kernel=(1, 1), padding=(0, 0, 0, 0)),
}


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_shapes(spec):
    assert_equal(CONV2D_MERGED_AVX2, spec, AVX2)


@pytest.mark.parametrize("fields", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(fields):
    assert_equal(CONV2D_MERGED_AVX2, dataclasses.replace(SHAPES["1x1"], **fields), AVX2)


@pytest.mark.parametrize("name", SHAPES)
def test_portable(name):
    assert_equal(CONV2D_MERGED_PLAIN, SHAPES[name], PORTABLE)


@pytest.mark.parametrize(
    ("template", "target"), [(CONV2D_MERGED_AVX2_WIDE, AVX2), (CONV2D_MERGED_PLAIN_WIDE, PORTABLE)]
)
def test_weights_of_two_bytes(template, target):
    spec = dataclasses.replace(SHAPES["two of four"], weights="int16")
    assert_equal(template, spec, target)


@pytest.mark.parametrize("template", [CONV2D_MERGED_AVX2, CONV2D_MERGED_PLAIN])
def test_sampled_schedules(template):
    assert_equal(template, SHAPES["all of three"], AVX2, template.space)


def test_symbolic_batch():
    spec = dataclasses.replace(SHAPES["narrowing"], batch=tirx.Var("batch", "int64"))
    assert_equal(CONV2D_MERGED_AVX2, spec, AVX2, batch=2)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("inputs", "outputs", "groups", "left"),
    [
        (24, 24, 14, 7),
        (34, 34, 4, 1),  # eight would fill blocks
        (8, 16, 6, 3),
        (16, 8, 6, 3),
        (3, 3, 32, 2),
        (3, 3, 17, None),  # all of 17
        (2, 4, 16, None),
        (16, 16, 4, None),
        (7, 5, 1, None),
    ],
)
def test_how_many_are_merged(inputs, outputs, groups, left):
    spec = conv(inputs * groups, (4, 4), out_channels=outputs * groups, groups=groups)
    assert (found.groups if (found := merged(spec)) else None) == left


@pytest.mark.fast
@pytest.mark.parametrize(
    ("channels", "groups", "even"), [(24, 17, 16), (24, 14, 0), (24, 1, 0), (3, 33, 32), (2, 17, 0)]
)
def test_how_many_fill_blocks(channels, groups, even):
    assert even_groups(conv(channels * groups, (4, 4), groups=groups)) == even


@pytest.mark.fast
def test_weights_are_zero_across_groups():
    spec = conv(12, (4, 4), out_channels=8, groups=4, kernel=(1, 1), padding=(0, 0, 0, 0))
    w = np.arange(1, 25).reshape(8, 3, 1, 1)
    wide = block_diagonal(spec, dataclasses.replace(spec, groups=2), w)[..., 0, 0]
    for group, rows in enumerate(wide.reshape(4, 2, 6)):
        own = slice(0, 3) if group % 2 == 0 else slice(3, 6)
        np.testing.assert_array_equal(
            rows[:, own].reshape(-1, 3, 1, 1), w[2 * group : 2 * group + 2]
        )
        assert np.count_nonzero(rows) == 6


@pytest.mark.fast
def test_preferred_to_gathering():
    vnni = Target(TARGETS["x86-vnni"])
    assert select(SHAPES["two of four"], vnni) is CONV2D_MERGED_VNNI
    assert select(SHAPES["two of four"], AVX2) is CONV2D_MERGED_AVX2
    assert select(SHAPES["two of four"], PORTABLE) is CONV2D_MERGED_PLAIN
    multiplier = conv(6, (5, 4), out_channels=18, groups=6)
    assert select(multiplier, vnni) is CONV2D_ANY_GROUP
    reason = CONV2D_MERGED_VNNI.refuses(multiplier, vnni)
    assert reason == "6 groups are too many, or too small, to be merged"
