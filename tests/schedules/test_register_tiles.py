"""A row whose last tile is cut: a loop where tiles have two columns, else unrolled; equal to NumPy."""

import pytest
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.contractions import conv2d
from schedules.cpu.plain import CONV2D_PLAIN
from schedules.cpu.tiles.contraction import STORE
from schedules.cpu.tiles.register_tiles import apply
from schedules.cpu.tiles.tile_rule import ContractionTiles
from schedules.x86.vnni import CONV2D_VNNI
from tests.schedules.conv_runs import WANTED, assert_equal, conv

POINT = {"kernel": (1, 1), "padding": (0, 0, 0, 0), "groups": 1}
CASES = {
    "cut": conv(16, (2, 7), out_channels=64, **POINT),
    "several_blocks_of_x": conv(48, (3, 5), out_channels=32, **POINT),
    "whole": conv(16, (2, 8), out_channels=32, **POINT),
    "residual": conv(16, (2, 7), out_channels=32, residual="int8", leaky=True, y="int8", **POINT),
    "ragged_channels": conv(20, (1, 3), out_channels=24, y="float32", **POINT),
}


def in_tiles(columns):
    def _apply(sch, spec, _target):
        apply(sch, ContractionTiles(2, columns, 1), conv2d.row_of(spec), None)

    return _apply


@pytest.mark.parametrize(
    ("template", "cpu"),
    [
        pytest.param(CONV2D_VNNI, "cascadelake", marks=pytest.mark.isa("avx512_vnni"), id="vnni"),
        pytest.param(CONV2D_PLAIN, "x86-64", id="plain"),
    ],
)
@pytest.mark.parametrize("case", CASES)
def test_pairs_of_columns(case, template, cpu):
    target = Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})
    assert_equal(template, CASES[case], target, in_tiles(2))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "columns", "unrolled"),
    [
        (CASES["cut"], 2, False),
        (CASES["cut"], 3, True),
        (CASES["whole"], 4, False),
        (conv(16, (7, 7), out_channels=32, groups=1), 2, True),
    ],
    ids=["pairs", "wider", "whole", "edges"],
)
def test_tiles_of_a_row_are_unrolled(spec, columns, unrolled):
    func = CONV2D_PLAIN.kernel(spec, WANTED).with_attr("global_symbol", "main")
    sch = Schedule(func)
    in_tiles(columns)(sch, spec, None)
    *_, row_of_tiles, _block, _column = sch.get_loops(sch.get_sblock(STORE))
    loop = sch.get(row_of_tiles)
    assert loop.extent == -(-spec.out_size[1] // columns)
    assert loop.kind == (tirx.ForKind.UNROLLED if unrolled else tirx.ForKind.SERIAL)
