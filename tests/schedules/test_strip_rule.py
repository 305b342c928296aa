"""Strips by rule: whole, within the registers and the cache, shared evenly by the cores."""

import pytest
from tvm.target import Target

from schedules.cpu.strips import conv2d_strips
from schedules.cpu.strips.strip_rule import (
    COPY_ELEMENTS,
    Extents,
    StripTiles,
    candidates,
    cost,
    default_strips,
)
from schedules.spec import Conv2d
from schedules.x86.dots import AVX2

pytestmark = pytest.mark.fast

MOST = 4  # accumulators


def extents(channels=64, size=56, out=64, kernel=3, stride=1):
    pad = kernel // 2
    spec = Conv2d(
        batch=1,
        in_channels=channels,
        height=size,
        width=size,
        out_channels=out,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=(pad, pad, pad, pad),
        x="uint8",
        y="uint8",
    )
    return conv2d_strips.extents_of(AVX2, spec)


def target(cores):
    return Target({"kind": "llvm", "mcpu": "haswell", "num-cores": cores})


@pytest.mark.parametrize("cores", [1, 2, 4, 8])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"stride": 2},
        {"channels": 1024, "size": 14, "out": 256, "kernel": 1},
        {"channels": 512, "size": 7, "out": 2048, "kernel": 1},
        {"channels": 16, "size": 112, "out": 96, "kernel": 1},
    ],
)
def test_cores_have_the_same_work(shape, cores):
    of = extents(**shape)
    strips = default_strips(of, target(cores), MOST)
    tasks = of.strips(strips) * strips.parts
    assert tasks % cores == 0 or tasks > 8 * cores
    assert strips.columns * strips.blocks <= MOST
    assert of.copied(strips.rows) <= COPY_ELEMENTS


def test_positions_of_single_pixels_are_one_run():
    of = extents(kernel=1)
    assert of.flat and (of.rows, of.columns) == (56 * 56, 1)
    assert of.tiled(StripTiles(rows=98, parts=1, columns=4, blocks=1)) == (1, 98)
    strided = extents(kernel=1, stride=2)
    assert not strided.flat and (strided.rows, strided.columns) == (28, 28)


def test_tiles_fit_their_strips():
    of = extents(channels=16, size=5, out=32, kernel=1)
    assert all(strips.columns <= strips.rows for strips in candidates(of, MOST))


def test_a_copy_that_fits_no_cache_is_as_small_as_can_be():
    of = Extents(
        batch=1,
        rows=8,
        columns=8,
        blocks=1,
        group_blocks=1,
        steps=9 * 1024,
        stride=1,
        reach=3,
        row_elements=COPY_ELEMENTS,
    )
    assert {strips.rows for strips in candidates(of, MOST)} == {1}


def test_weights_are_read_once_for_many_tiles():
    """Strips of one tile would read all weights anew for each."""
    of = extents(channels=512, size=28, out=128, kernel=1)
    one, many = (StripTiles(rows=rows, parts=1, columns=4, blocks=1) for rows in (6, 98))
    assert cost(of, 1, many) < cost(of, 1, one)
