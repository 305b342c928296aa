"""Move and concat: every element arrives, in every layout and between layouts."""

from dataclasses import replace

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.moves import in_registers, joined_blocks
from schedules.cpu.moves.concat import CONCAT_CPU
from schedules.cpu.moves.exchange import matrices
from schedules.cpu.moves.move import MOVE_CPU
from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW, Layout
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Concat, Move
from schedules.targets import TARGETS
from schedules.template import Layouts, ScheduleError
from tests.schedules.any_layout_runs import build, check, random_tensors, run
from tests.x86_targets import X86

FILL = {"fill": np.array([7], np.uint8)}
LAYOUTS = [ROW, NHWC, NCHW4C, NCHW16C]


def label(value) -> str:
    return getattr(value, "name", str(value).replace(" ", ""))


def moves(channels: int) -> dict[str, Move]:
    """Return one spec of each kind for images of 6 x 10."""
    x = (2, channels, 6, 10)
    cases = {
        "reshape": ("reshape", (2, channels * 2, 3, 10), ()),
        "transpose": ("transpose", (2, 10, channels, 6), (0, 3, 1, 2)),
        "rows of channels": ("transpose", (2, 6, 10, channels), (0, 2, 3, 1)),
        "slice channels": ("slice", (2, 2, 3, 4), (0, 1, 2, 1, 1, 1, 1, 2)),
        "slice rows": ("slice", (2, channels, 3, 10), (0, 0, 2, 0, 1, 1, 1, 1)),
        "pad image": ("pad", (2, channels, 9, 12), (0, 0, 1, 2)),
        "pad channels": ("pad", (2, channels + 5, 6, 10), (0, 2, 0, 0)),
        "edge": ("edge", (2, channels, 9, 13), (0, 0, 1, 3)),
        "edge channels": ("edge", (2, channels + 5, 7, 10), (0, 2, 0, 0)),
        "reflect": ("reflect", (2, channels, 14, 19), (0, 0, 5, 0)),
        "reflect rows": ("reflect", (2, channels, 8, 10), (0, 0, 2, 0)),
        "resize": ("resize", (2, channels, 12, 15), ()),
        "channel shuffle": (
            "shuffle",
            (2, channels, 6, 10),
            (2, channels // 2, 6, 10, 1, 0, 2, 3, channels, 6, 10, 0, 0, 0),
        ),
        "interleave": (  # 2 x 2 phases before the channels, cropped
            "shuffle",
            (2, channels // 4, 10, 18),
            (2, 2, channels // 4, 6, 10, 2, 3, 0, 4, 1, channels // 4, 12, 20, 0, 1, 1),
        ),
        "space to depth": (
            "shuffle",
            (2, channels * 4, 3, 5),
            (channels, 3, 2, 5, 2, 2, 4, 0, 1, 3, channels * 4, 3, 5, 0, 0, 0),
        ),
    }
    return {
        name: Move(move=move, x_shape=x, y_shape=y, arguments=arguments, x="uint8")
        for name, (move, y, arguments) in cases.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
@pytest.mark.parametrize("name", moves(20))
def test_move(name, layout):
    check(moves(20)[name], FILL, layout)


@pytest.mark.parametrize("layout", [NCHW4C, NCHW16C], ids=label)
def test_pads_of_whole_blocks_of_channels(layout):
    spec = Move(
        move="pad",
        x_shape=(2, 32, 6, 10),
        y_shape=(2, 80, 6, 11),
        arguments=(0, 16, 0, 1),
        x="uint8",
    )
    check(spec, FILL, layout)


@pytest.mark.parametrize("layout", [NCHW4C, NCHW16C], ids=label)
def test_shuffles_that_move_whole_blocks(layout):
    check(moves(64)["interleave"], {}, layout)
    check(moves(16)["space to depth"], {}, layout)


@pytest.mark.parametrize("name", ["reshape", "slice channels", "pad channels", "resize"])
def test_move_between_layouts(name):
    check(moves(3)[name], FILL, NHWC, NCHW16C)
    check(moves(32)[name], FILL, NCHW16C, ROW)


REPACKS = [(a, b) for a in LAYOUTS for b in LAYOUTS if a != b]


@pytest.mark.parametrize(("layout", "output"), REPACKS, ids=label)
def test_repack(layout, output):
    shape = (2, 20, 5, 7)
    check(Move(move="copy", x_shape=shape, y_shape=shape, x="int8"), {}, layout, output)


@pytest.mark.fast
def test_repack_float32_zeroes_pad_lanes():
    shape = (2, 3, 5, 7)
    check(Move(move="copy", x_shape=shape, y_shape=shape, x="float32"), {}, ROW, NCHW16C)


def test_slice_of_whole_blocks():
    spec = Move(
        move="slice", x_shape=(2, 48, 5, 5), y_shape=(2, 20, 5, 5), x="int8",
        arguments=(0, 16, 0, 0, 1, 1, 1, 1),
    )  # fmt: skip
    check(spec, {}, NCHW16C)


@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_flatten(layout):
    spec = Move(move="reshape", x_shape=(2, 20, 3, 3), y_shape=(2, 180), x="int8")
    check(spec, {}, layout, ROW)


@pytest.mark.parametrize("channels", [32, 20])
@pytest.mark.parametrize("output", LAYOUTS, ids=label)
def test_rows_of_channels_become_an_image(channels, output):
    spec = Move(
        move="transpose",
        x_shape=(2, 6, 10, channels),
        y_shape=(2, channels, 6, 10),
        arguments=(0, 3, 1, 2),
        x="int8",
    )
    check(spec, {}, (ROW,), output)


def test_transpose_keeps_runs():
    spec = Move(
        move="transpose",
        x_shape=(2, 3, 5, 4, 6),
        y_shape=(2, 5, 3, 4, 6),
        arguments=(0, 2, 1, 3, 4),
        x="int8",
    )
    check(spec, {}, (ROW,), ROW)


def test_transpose_of_three_axes():
    spec = Move(
        move="transpose", x_shape=(2, 3, 4), y_shape=(4, 2, 3), arguments=(2, 0, 1), x="int8"
    )
    check(spec, {})


@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=label)
def test_symbolic_batch(layout):
    n = tirx.Var("n", "int64")
    x, y = (n, 20, 6, 10), (n, 20, 9, 12)
    spec = Move(move="pad", x_shape=x, y_shape=y, arguments=(0, 0, 1, 2), x="uint8")
    built, layouts = build(spec, Layouts(inputs=(layout,), output=layout))
    for batch in (1, 3):
        tensors = random_tensors(spec, batch)
        memory = run(built, spec, layouts, tensors, FILL)
        expected = reference(spec, tensors, FILL)
        np.testing.assert_array_equal(layout.unpack(memory, expected.shape), expected)


def concat(sizes: tuple[int, ...], axis: int, dtype: str) -> Concat:
    shape = (2, 16, 6, 7)
    shapes = tuple((*shape[:axis], size, *shape[axis + 1 :]) for size in sizes)
    return Concat(shapes=shapes, axis=axis, x=dtype)


@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
@pytest.mark.parametrize(
    ("sizes", "axis"), [((3, 20), 1), ((16, 32, 16), 1), ((16, 5), 1), ((5, 4), 2)], ids=label
)
def test_concat(sizes, axis, layout):
    check(concat(sizes, axis, "uint8"), {}, layout)


def test_concat_of_blocks_is_parallel():
    shapes = ((1, 64, 20, 20), (1, 32, 20, 20))
    check(Concat(shapes=shapes, axis=1, x="int8"), {}, NCHW16C)


def test_concat_of_rows_is_parallel():
    shapes = ((3, 40, 90), (3, 40, 1), (3, 40, 80))
    for searched in (False, True):
        check(Concat(shapes=shapes, axis=2, x="uint8"), {}, ROW, searched=searched)


MANY = (16, 32, 16, 16, 48, 16, 16, 16, 32, 16)


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("layout", LAYOUTS, ids=label)
def test_concat_of_many(layout, target):
    target = Target(TARGETS[target])
    for sizes, axis, dtype in ((MANY, 1, "uint8"), ((*MANY, 5), 1, "float32"), (MANY, 2, "int8")):
        check(concat(sizes, axis, dtype), {}, layout, target=target)
    check(concat((3, *MANY), 1, "float32"), {}, layout, target=target)  # between lanes of blocks
    check(concat(MANY, 1, "uint8"), {}, layout, target=target, searched=True)


def test_concat_of_many_images():
    """As many as there are when it runs; parts that are worth threads and parts that are not."""
    batch = tirx.Var("n", "int64")
    shapes = tuple((batch, channels, 20, 20) for channels in MANY)
    spec = Concat(shapes=shapes, axis=1, x="int8")
    wanted = Layouts(inputs=(NCHW16C,) * len(MANY), output=NCHW16C)
    built, layouts = build(spec, wanted)
    for count in (1, 3):
        tensors = random_tensors(spec, count)
        memory = run(built, spec, layouts, tensors, {})
        expected = reference(spec, tensors, {})
        np.testing.assert_array_equal(NCHW16C.unpack(memory, expected.shape), expected)


@pytest.mark.fast
def test_concat_mixes_layouts():
    check(concat((3, 20), 1, "int8"), {}, (NCHW16C, ROW), NHWC)
    check(concat((3, 20), 1, "float32"), {}, (NHWC, NCHW4C), NCHW16C)
    check(concat((16, 3), 1, "float32"), {}, NCHW16C)


def test_refuses_symbolic_sizes_inside():
    n, llvm = tirx.Var("n", "int64"), Target("llvm")
    spec = Move(move="transpose", x_shape=(n, 3), y_shape=(3, n), arguments=(1, 0), x="int8")
    assert MOVE_CPU.refuses(spec, llvm) == "axis 1 of y is symbolic; only axis 0 may be"
    with pytest.raises(ScheduleError, match="; build the network for a fixed batch"):
        select(spec, llvm)
    spec = Concat(shapes=((n, 3), (n, 3)), axis=0, x="int8")
    assert CONCAT_CPU.refuses(spec, llvm) == "axis 0, along which it concatenates, is symbolic"
    spec = Concat(shapes=((2, n), (2, n)), axis=0, x="int8")
    assert CONCAT_CPU.refuses(spec, llvm) == "axis 1 of x0 is symbolic; only axis 0 may be"
    assert CONCAT_CPU.refuses(concat((3, 20), 1, "int8"), llvm) is None


def test_what_is_no_image_is_row_major():
    spec = Move(move="reshape", x_shape=(2, 16, 3, 3), y_shape=(2, 144), x="int8")
    layouts = MOVE_CPU.layouts(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    assert layouts == Layouts(inputs=(NCHW16C,), output=ROW)


def exchange(x_shape, dtype, order=None, y_shape=None) -> Move:
    """Return a transposition, a reshape or a copy."""
    if order:
        y_shape = tuple(x_shape[axis] for axis in order)
        return Move(move="transpose", x_shape=x_shape, y_shape=y_shape, arguments=order, x=dtype)
    move = "reshape" if y_shape else "copy"
    return Move(move=move, x_shape=x_shape, y_shape=y_shape or x_shape, x=dtype)


EXCHANGES = {
    "unpack": ((2, 32, 8, 9), {}, NCHW16C, ROW),
    "unpack a cut block": ((2, 21, 8, 9), {}, NCHW16C, ROW),
    "unpack one channel": ((1, 1, 10, 13), {}, NCHW16C, ROW),
    "unpack four by four": ((2, 21, 4, 4), {}, NCHW16C, ROW),
    "unpack to tokens": ((1, 20, 9, 8), {"y_shape": (1, 20, 72)}, NCHW16C, ROW),
    "pack": ((2, 32, 9, 8), {}, ROW, NCHW16C),
    "pack a cut block": ((2, 21, 10, 7), {}, ROW, NCHW16C),
    "pack tokens": ((1, 20, 72), {"y_shape": (1, 20, 9, 8)}, ROW, NCHW16C),
    "tall": ((2, 70, 33), {"order": (0, 2, 1)}, ROW, ROW),
    "wide": ((2, 3, 17, 65), {"order": (0, 1, 3, 2)}, ROW, ROW),
    "images to rows": ((1, 16, 8, 9), {"order": (0, 2, 3, 1)}, ROW, ROW),
    "rows to images": ((2, 6, 11, 16), {"order": (0, 3, 1, 2)}, ROW, ROW),
}


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("case", EXCHANGES)
def test_exchanges_by_tiles(case, dtype, target):
    shape, how, layout, output = EXCHANGES[case]
    spec = exchange(shape, dtype, **how)
    is_tiled = matrices(spec, Layouts(inputs=(layout,), output=output)) is not None
    assert is_tiled or (case, dtype) == ("unpack four by four", "uint8")
    check(spec, {}, layout, output, Target(TARGETS[target]))


@pytest.mark.parametrize("case", ["unpack a cut block", "pack a cut block", "tall", "wide"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_registers_of_any_size(monkeypatch, case, dtype, parts):
    monkeypatch.setattr(in_registers, "register_parts", lambda _target: parts)
    shape, how, layout, output = EXCHANGES[case]
    check(exchange(shape, dtype, **how), {}, layout, output)


def test_tiles_of_an_open_batch():
    shape = (tirx.Var("n", "int64"), 20, 8, 8)
    spec = exchange(shape, "uint8")
    for batch in (1, 3):
        tensors = random_tensors(spec, batch)
        check(spec, {}, NCHW16C, ROW, tensors=tensors)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "layout", "output"),
    [
        (exchange((tirx.Var("n", "int64"), 80), "uint8", (1, 0)), ROW, ROW),
        (exchange((1, 64, 8, 7), "uint8"), NCHW16C, ROW),  # fewer pixels than a tile has
        (exchange((1, 64, 8, 8), "uint8"), NCHW16C, NCHW4C),
        (exchange((1, 64, 8, 8), "uint8"), NHWC, ROW),
        (exchange((8, 64, 80), "uint8", (1, 0, 2)), ROW, ROW),
        (exchange((8, 64, 80), "uint8", (2, 1, 0)), ROW, ROW),
        (exchange((8, 15, 80), "uint8", (0, 2, 1)), ROW, ROW),
        (exchange((8, 64, 80), "int64", (0, 2, 1)), ROW, ROW),
    ],
)
def test_other_moves_have_no_tiles(spec, layout, output):
    assert matrices(spec, Layouts(inputs=(layout,), output=output)) is None


JOINED = {
    "two in a block": ((3, 20), "uint8"),
    "three in a block": ((5, 4, 40), "int8"),
    "many in a block": ((1, 2, 3, 1, 4, 1, 2, 5, 1, 1, 33, 6), "uint8"),
    "zero lanes behind": ((24, 18), "float32"),
    "a whole block behind a cut one": ((24, 24), "float32"),
    "words": ((9, 16, 7), "int32"),
}


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("case", JOINED)
def test_concat_inside_of_blocks(case, target):
    sizes, dtype = JOINED[case]
    spec = concat(sizes, 1, dtype)
    assert joined_blocks.pieces(spec, Layouts(inputs=(NCHW16C,) * len(sizes), output=NCHW16C))
    check(spec, {}, NCHW16C, target=Target(TARGETS[target]))
    check(spec, {}, NCHW16C, target=Target(TARGETS[target]), searched=True)


def channels(x: int, first: int, count: int, dtype: str, batch: object = 2) -> Move:
    """Return a slice of channels of images of 9 x 11, more pixels than a task has."""
    return Move(
        move="slice",
        x_shape=(batch, x, 9, 11),
        y_shape=(batch, count, 9, 11),
        arguments=(0, first, 0, 0, 1, 1, 1, 1),
        x=dtype,
    )


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("parts", [(60, 26, 26), (40, 3, 37), (40, 20, 5), (32, 24, 8)], ids=label)
def test_channels_from_inside_of_a_block(parts, dtype, target):
    spec = channels(*parts, dtype)
    assert joined_blocks.pieces(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    check(spec, {}, NCHW16C, target=Target(TARGETS[target]))


@pytest.mark.parametrize("sizes", [(24, 24), (100, 300)], ids=label)
def test_blocks_joined_of_an_open_batch(sizes):
    n = tirx.Var("n", "int64")
    for spec in (
        Concat(shapes=tuple((n, size, 9, 11) for size in sizes), axis=1, x="uint8"),
        channels(sum(sizes), sizes[0], sizes[1], "uint8", n),
    ):
        layouts = Layouts(inputs=(NCHW16C,) * len(spec.tensors), output=NCHW16C)
        assert joined_blocks.pieces(spec, layouts)
        for batch in (1, 3):
            check(spec, {}, NCHW16C, tensors=random_tensors(spec, batch))


@pytest.mark.fast
def test_what_loops_copy_is_not_joined_in_registers():
    blocks = Layouts(inputs=(NCHW16C,) * 2, output=NCHW16C)
    assert not joined_blocks.pieces(concat((16, 5), 1, "uint8"), blocks)
    assert not joined_blocks.pieces(concat((3, 20), 2, "uint8"), blocks)
    rows = Layouts(inputs=(NCHW16C, ROW), output=NCHW16C)
    assert not joined_blocks.pieces(concat((3, 20), 1, "uint8"), rows)
    one = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    assert not joined_blocks.pieces(channels(60, 32, 20, "uint8"), one)
    for name in ("slice channels", "slice rows", "pad channels", "resize"):
        assert not joined_blocks.pieces(moves(20)[name], one), name


def chosen(name: str, channels: int, layout: Layout, output: Layout) -> Layouts:
    """Return the layouts of a move of words: of bytes the images would have less than a tile."""
    spec = replace(moves(channels)[name], x="float32")
    return MOVE_CPU.layouts(spec, Layouts(inputs=(layout,), output=output))


@pytest.mark.fast
@pytest.mark.parametrize("name", ["reflect rows", "edge", "pad image"])
def test_blocks_are_moved_whole_and_copied_by_tiles(name):
    blocks = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    assert chosen(name, 32, ROW, NCHW16C) == chosen(name, 32, NCHW16C, ROW) == blocks
    assert chosen("interleave", 64, NCHW16C, ROW) == blocks


@pytest.mark.fast
def test_the_smaller_tensor_is_copied():
    resized = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    assert chosen("resize", 32, ROW, NCHW16C) == resized
    assert chosen("resize", 32, NCHW16C, ROW) == Layouts(inputs=(ROW,), output=ROW)
    crop = Move(
        move="slice", x_shape=(1, 32, 40, 40), y_shape=(1, 32, 20, 20), x="uint8",
        arguments=(0, 0, 9, 9, 1, 1, 1, 1),
    )  # fmt: skip
    wanted = Layouts(inputs=(ROW,), output=NCHW16C)
    assert MOVE_CPU.layouts(crop, wanted) == Layouts(inputs=(ROW,), output=ROW)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "channels"),
    [
        ("reflect", 12),  # less than a block
        ("pad channels", 20),  # between the lanes of blocks
        ("channel shuffle", 32),
        ("reshape", 32),
    ],
)
def test_other_moves_gather_elements_between_layouts(name, channels):
    wanted = Layouts(inputs=(NCHW16C,), output=ROW)
    assert chosen(name, channels, NCHW16C, ROW) == wanted


@pytest.mark.fast
def test_concat_copies_inputs_by_tiles():
    shapes = ((1, 20, 8, 8), (1, 12, 8, 8), (1, 3, 5, 5))
    wanted = Layouts(inputs=(ROW, NCHW16C), output=NCHW16C)
    spec = Concat(shapes=shapes[:2], axis=1, x="uint8")
    assert CONCAT_CPU.layouts(spec, wanted) == Layouts(inputs=(NCHW16C,) * 2, output=NCHW16C)
    small = Concat(shapes=shapes[2:] * 2, axis=1, x="uint8")  # fewer pixels than a tile has
    assert CONCAT_CPU.layouts(small, wanted) == wanted
