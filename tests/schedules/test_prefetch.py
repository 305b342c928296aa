"""Prefetches: of the next task's weights, a few lines at a time, and only beside free registers."""

import pytest
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.contractions import conv2d
from schedules.cpu.tiles.prefetch import AHEAD
from schedules.cpu.tiles.register_tiles import apply
from schedules.cpu.tiles.tile_rule import ContractionTiles, OutputRow
from schedules.layout import NCHW16C, ROW
from schedules.spec import Conv2d, Dense
from schedules.template import Layouts
from schedules.x86.avx2 import DENSE_AVX2
from schedules.x86.vnni import CONV2D_VNNI, DENSE_VNNI

SPEC = Conv2d(
    batch=1,
    in_channels=64,
    height=8,
    width=8,
    out_channels=64,
    kernel=(3, 3),
    padding=(1, 1, 1, 1),
    x="uint8",
    y="uint8",
)


def finished(tiles: ContractionTiles) -> tirx.PrimFunc:
    images = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    kernel = CONV2D_VNNI.kernel(SPEC, images).with_attr("global_symbol", "main")
    sch = Schedule(kernel)
    apply(sch, tiles, conv2d.row_of(SPEC), None)
    return CONV2D_VNNI.finish(sch.mod["main"])


def loops_that_ask(func: tirx.PrimFunc) -> int:
    found: list[str] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, lambda loop: found.extend(loop.annotations)))
    return found.count(AHEAD)


@pytest.mark.fast
def test_default_tiles_fetch_the_next_blocks():
    func = finished(ContractionTiles(2, 4, 8))
    assert loops_that_ask(func) == 0  # every annotation has become code
    text = func.script()
    assert text.count("llvm.prefetch") == 1
    # A row of the kernel is 2 blocks of 3 taps of 4 lines; 8 rows of 2 tiles ask for 2 each.
    assert "* T.int64(2) < T.int64(24)" in text and "T.unroll(T.int64(2))" in text


def dense(rows: int, tiles: ContractionTiles) -> str:
    kernel = DENSE_VNNI.kernel(
        Dense(rows=rows, k=256, n=128, x="uint8", y="uint8"), Layouts(inputs=(ROW,), output=ROW)
    )
    sch = Schedule(kernel.with_attr("global_symbol", "main"))
    apply(sch, tiles, OutputRow(), None)
    return DENSE_VNNI.finish(sch.mod["main"]).script()


@pytest.mark.fast
def test_tiles_of_a_dense_layer_share_the_next_blocks():
    text = dense(32, ContractionTiles(2, 4, 1))
    # 4 steps are 8 lines of 2 blocks; 8 tiles ask for 1 each.
    assert text.count("llvm.prefetch") == 1 and "< T.int64(8)" in text


@pytest.mark.fast
def test_a_single_tile_reads_as_fast_as_memory_gives():
    assert "llvm.prefetch" not in dense(4, ContractionTiles(2, 4, 1))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("rows", "n", "asks"),
    [(40, 18710, True), (40, 18704, False), (40, 330, False), (1, 99999, False)],
)
def test_long_rows_that_begin_within_a_line_are_asked_for(rows, n, asks):
    spec = Dense(rows=rows, n=n, k=120, x="uint8", y="float32")
    for template in (DENSE_VNNI, DENSE_AVX2):
        kernel = template.kernel(spec, Layouts(inputs=(ROW,), output=ROW))
        sch = Schedule(kernel.with_attr("global_symbol", "main"))
        template.default(sch, spec, Target({"kind": "llvm", "mcpu": "cascadelake"}))
        written = "address_of(y[" in template.finish(sch.mod["main"]).script()
        assert written == asks


@pytest.mark.fast
def test_sixteen_accumulators_leave_no_room():
    assert "llvm.prefetch" not in finished(ContractionTiles(4, 4, 8)).script()
