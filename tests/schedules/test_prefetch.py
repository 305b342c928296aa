"""Prefetches: of the next task's weights, each line once a task, and only beside free registers."""

import pytest
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule

from schedules.cpu import conv2d
from schedules.cpu.prefetch import AHEAD
from schedules.cpu.register_tiles import apply
from schedules.cpu.tile_rule import ContractionTiles
from schedules.layout import NCHW16C
from schedules.spec import Conv2d
from schedules.template import Layouts
from schedules.x86.vnni import CONV2D_VNNI

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
    # 8 rows share the 4 blocks of input channels; 9 taps of 4 steps are 36 lines of 64 bytes.
    assert "if ax4 % T.int64(8) ==" in text and "range(T.int64(36))" in text


@pytest.mark.fast
def test_sixteen_accumulators_leave_no_room():
    assert "llvm.prefetch" not in finished(ContractionTiles(4, 4, 8)).script()
