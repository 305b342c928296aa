"""The rule that chooses tiles, and what the compiler makes of them."""

import re

import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from relay_int8.compiler.lower_kernels import code_passes, plain_loops
from schedules.cpu.contractions.conv2d import row_of
from schedules.cpu.dot import accumulators
from schedules.cpu.tiles.tile_rule import OutputRow, Shape, default_tiles, has_registers
from schedules.spec import Conv2d
from schedules.x86.vnni import CONV2D_VNNI
from tests.schedules.run_template import WANTED

PARTING = "s_tir.LoopPartition"
VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
ZEN5 = Target({"kind": "llvm", "mcpu": "znver5", "num-cores": 2})
SHAPES = {
    "56x56, 64 -> 256": Shape(1, 16, 56, 56, (4, 1, 1, 4)),
    "7x7, 512 -> 512": Shape(1, 32, 7, 7, (32, 3, 3, 4)),
    "prime width": Shape(1, 12, 71, 72, (5, 3, 3, 4)),
    "17x17, 160": Shape(1, 10, 17, 17, (48, 1, 1, 4)),
    "one block": Shape(1, 1, 224, 224, (1, 3, 3, 4)),
    "matrix times vector": Shape(1, 256, 1, 1, (1568, 4)),
    "symbolic batch": Shape(None, 4, 14, 14, (4, 3, 3, 4)),
}


@pytest.mark.fast
@pytest.mark.parametrize("target", [VNNI, HASWELL, ZEN5], ids=["vnni", "haswell", "zen5"])
@pytest.mark.parametrize("name", SHAPES)
def test_tiles_fit_registers_and_divide(name, target):
    shape = SHAPES[name]
    for row in (OutputRow(), OutputRow(short=False), OutputRow(edges=True)):
        tiles = default_tiles(shape, target, row)
        assert tiles.blocks * tiles.columns <= accumulators(target)
        assert shape.blocks % tiles.blocks == 0
        assert shape.rows % tiles.rows == 0
        assert row.short or shape.columns % tiles.columns == 0


@pytest.mark.fast
def test_long_rows_of_a_prime_length_are_cut():
    """197 tokens: tiles that divide would have one column."""
    shape = Shape(1, 24, 1, 197, (24, 4))
    ragged = default_tiles(shape, VNNI, OutputRow(short=False, columns=8, ragged=True))
    assert ragged.columns > 2
    assert default_tiles(shape, VNNI, OutputRow(short=False, columns=8)).columns == 1


@pytest.mark.fast
def test_both_cores_work_on_small_images():
    tiles = default_tiles(SHAPES["7x7, 512 -> 512"], VNNI, OutputRow(edges=True))
    tasks = 32 // tiles.blocks * (7 // tiles.rows)
    assert tasks % 2 == 0


@pytest.mark.fast
def test_short_sums_take_small_tiles():
    """The epilogue of a small tile overlaps with the next: it pays where the sum is short."""
    short, long = (Shape(1, 16, 56, 56, (blocks, 1, 1, 4)) for blocks in (4, 64))
    tiles = [default_tiles(shape, VNNI, OutputRow()) for shape in (short, long)]
    assert tiles[0].blocks * tiles[0].columns < tiles[1].blocks * tiles[1].columns


@pytest.mark.fast
def test_two_multiplications_a_cycle_take_other_tiles():
    """Zen 5: a tile hides ten of them."""
    short = Shape(1, 16, 56, 56, (4, 1, 1, 4))
    tiles = default_tiles(short, ZEN5, OutputRow())
    assert tiles.blocks * tiles.columns > 10
    assert tiles.rows * 56 >= 256


@pytest.mark.fast
@pytest.mark.parametrize("target", [VNNI, ZEN5], ids=["vnni", "zen5"])
def test_weights_beyond_the_second_cache_are_few_blocks(target):
    deep = Shape(1, 32, 28, 28, (128, 3, 3, 4))
    tiles = default_tiles(deep, target, OutputRow(edges=True))
    assert tiles.blocks == 2
    assert has_registers(tiles.blocks, tiles.columns), "only such tiles ask for weights ahead"


@pytest.mark.fast
@pytest.mark.parametrize(
    ("blocks", "size", "steps", "alone", "together"),
    [
        (6, 112, 4, (2, 2), (2, 4)),
        (9, 56, 8, (1, 4), (1, 8)),
        (24, 14, 16, (2, 2), (2, 7)),
        (36, 14, 24, (2, 7), (2, 7)),
    ],
)
def test_tiles_whose_columns_are_rounded_by_fours(blocks, size, steps, alone, together):
    """Short sums get tiles of fours; of longer ones rounding is a small part."""
    shape = Shape(1, blocks, size, size, (steps // 4, 1, 1, 4))
    for packed, expected in ((False, alone), (True, together)):
        tiles = default_tiles(shape, VNNI, OutputRow(packed=packed))
        assert (tiles.blocks, tiles.columns) == expected


@pytest.mark.parametrize(
    ("size", "kernel", "padding"), [(14, 3, 1), (56, 3, 1), (28, 1, 0), (7, 3, 1)]
)
def test_accumulators_stay_in_registers(size, kernel, padding):
    spec = Conv2d(
        batch=1,
        in_channels=128,
        height=size,
        width=size,
        out_channels=128,
        kernel=(kernel, kernel),
        padding=(padding,) * 4,
        x="uint8",
        y="uint8",
    )
    sch = Schedule(CONV2D_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    CONV2D_VNNI.default(sch, spec, VNNI)
    assembly = tvm.compile(sch.mod, target=VNNI).mod.inspect_source("asm")
    products = len(re.findall(r"\bvpdpbusd\b.*%zmm", assembly))
    spills = len(re.findall(r"\bvmov\w+\s+%zmm\d+, -?\d*\(%rsp\)", assembly))
    assert products > 0
    assert spills <= products // 20  # constants of the epilogue may spill, accumulators not


@pytest.mark.fast
@pytest.mark.parametrize(("kernel", "most"), [(3, 16), (5, 14)])
def test_tiles_leave_registers_for_the_columns_of_wide_kernels(kernel, most):
    spec = Conv2d(
        batch=1, in_channels=64, height=256, width=256, out_channels=16, kernel=(kernel, kernel),
        padding=(kernel // 2,) * 4, x="uint8", y="uint8",
    )  # fmt: skip
    assert row_of(spec).columns == most


@pytest.mark.fast
def test_tiles_inside_of_a_dilated_row_are_a_loop_of_their_own():
    """TVM parts the loop without a word where it does not, and each tap would be masked."""
    spec = Conv2d(
        batch=1, in_channels=32, height=1, width=320, out_channels=16, kernel=(1, 3), dilation=(1, 16),
        padding=(0, 16, 0, 16), x="uint8", y="uint8",
    )  # fmt: skip
    assert row_of(spec).parted
    sch = Schedule(CONV2D_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    CONV2D_VNNI.default(sch, spec, VNNI)
    lowered = plain_loops(sch.mod, VNNI)
    for step in code_passes():
        lowered = step(lowered)
        if step.info.name == PARTING:
            break
    assert lowered.script().count("acc = T.alloc_buffer") == 3, "left of it, inside, right of it"
