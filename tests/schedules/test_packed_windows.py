"""Pixels of window kernels rounded by fours: the bytes are those of one at a time."""

import pytest
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.windows.window_tiles import WindowTiles, apply
from schedules.x86.depthwise_vnni import DEPTHWISE_VNNI
from schedules.x86.grouped_vnni import GROUPED_VNNI
from schedules.x86.packed_windows import with_packed_windows
from tests.schedules.conv_runs import WANTED, assert_equal, conv

pytestmark = [pytest.mark.fast, pytest.mark.isa("avx512_vnni")]

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake"})
PACKED = "packuswb"
PAIRS = conv(40, (8, 6), batch=2)  # two pixels a window
SINGLES = conv(40, (16, 12), strides=(2, 2))  # one


def scheduled(spec, rows, windows=1, template=DEPTHWISE_VNNI):
    sch = Schedule(template.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    apply(sch, WindowTiles(rows, windows))
    return sch.mod["main"]


@pytest.mark.parametrize(
    ("spec", "rows"),
    [(PAIRS, 4), (PAIRS, 8), (PAIRS, 2), (SINGLES, 4), (SINGLES, 8)],
    ids=["two groups", "all rows", "one group", "four rows", "eight rows"],
)
def test_rows_go_together(spec, rows):
    assert PACKED in DEPTHWISE_VNNI.finish(scheduled(spec, rows)).script()
    assert_equal(DEPTHWISE_VNNI, spec, VNNI, lambda sch, *_: apply(sch, WindowTiles(rows, 1)))


@pytest.mark.parametrize("size", [(7, 6), (14, 14)])
def test_a_row_that_is_left(size):
    """Seven rows: three groups of two, and one."""
    spec = conv(20, size)
    assert PACKED in DEPTHWISE_VNNI.finish(scheduled(spec, 7)).script()
    assert_equal(DEPTHWISE_VNNI, spec, VNNI, lambda sch, *_: apply(sch, WindowTiles(7, 1)))


@pytest.mark.parametrize("fields", [{"residual": "uint8"}, {"leaky": True}])
def test_epilogues(fields):
    spec = conv(20, (8, 6), **fields)
    assert PACKED in DEPTHWISE_VNNI.finish(scheduled(spec, 4)).script()
    assert_equal(DEPTHWISE_VNNI, spec, VNNI, lambda sch, *_: apply(sch, WindowTiles(4, 1)))


def test_grouped():
    spec = conv(32, (8, 6), groups=8)
    assert GROUPED_VNNI.refuses(spec, VNNI) is None
    assert_equal(GROUPED_VNNI, spec, VNNI, lambda sch, *_: apply(sch, WindowTiles(8, 1)))


@pytest.mark.parametrize(
    ("spec", "rows", "windows"),
    [
        (conv(20, (8, 6), y="int8"), 4, 1),
        (conv(20, (8, 6), y="float32"), 4, 1),
        (conv(20, (7, 6)), 4, 1),  # rows that tiles do not divide
        (PAIRS, 1, 1),
        (SINGLES, 2, 1),
        (PAIRS, 4, 3),
        (conv(20, (8, 6), requantize="gemmlowp"), 4, 1),
    ],
    ids=["signed", "float", "ragged", "one row", "two pixels", "wide", "fixed point"],
)
def test_others_are_stored_one_by_one(spec, rows, windows):
    func = scheduled(spec, rows, windows)
    assert with_packed_windows(func).script() == func.script()


def test_the_scheduled_kernel_stays_as_it_was():
    func = scheduled(PAIRS, 4)
    before = func.script()
    with_packed_windows(func)
    assert func.script() == before


def test_an_open_batch():
    spec = conv(20, (4, 6), batch=tirx.Var("batch", "int64"))
    assert_equal(DEPTHWISE_VNNI, spec, VNNI, batch=3)
