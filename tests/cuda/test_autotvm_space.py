"""Every knob of AutoTVM's int8 templates for CUDA has its counterpart in the space of ours.

The old conv2d_NCHWc_int8 had four-way splits of batch, blocks of four output channels, rows and
columns (block, vthread, thread, registers), two-way splits of the reduction's axes and all orders
of them, one or two fused thread axes, double buffers of x and of w, and steps of unrolling. Threads
of a block are numbered alike however its axes are fused: the last axis is the fastest. The old
group_conv2d_NCHWc_int8 had a two-way split of the groups (block, vthread) beside that of a group's
blocks; here they are one axis. What that leaves out is named in a test.
"""

from itertools import product
from typing import Any, cast

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule

from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.dense import DENSE_DP4A
from schedules.cuda.dp4a.tiles import LOOP_ORDERS as OURS
from schedules.space import Kernel, Option, point, tilings, trace
from schedules.spec import Conv2d, Dense
from schedules.template import Layouts
from tests.cuda.emulator import Emulator, cuda_source
from tests.cuda.run_template import SM_80, WANTED, Built, Case
from tests.schedules.numpy_kernels import random_arrays, reference

ORDERS = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
PIPELINE = {(0, 0): 0, (1, 1): 1, (1, 0): 2, (0, 1): 3}
"""AA_double_buffer, WW_double_buffer -> which arrays are double-buffered."""
CONV = Conv2d(
    batch=2, in_channels=16, height=36, width=36, out_channels=64, kernel=(3, 3),
    padding=(1, 1, 1, 1), x="int8", y="int8",
)  # fmt: skip
GROUPED = Conv2d(
    batch=2, in_channels=64, height=36, width=36, out_channels=64, kernel=(3, 3), groups=4,
    padding=(1, 1, 1, 1), x="int8", y="int8",
)  # fmt: skip
POINTWISE = Conv2d(
    batch=2, in_channels=64, height=36, width=36, out_channels=64, kernel=(1, 1), x="int8", y="int8"
)
DENSE = Dense(rows=256, n=768, k=64, x="int8", y="int8")
TEMPLATES = {"conv2d": CONV2D_DP4A, "dense": DENSE_DP4A}


def kernel_of(spec: Conv2d | Dense) -> Kernel:
    template = TEMPLATES[spec.kind]
    layouts = template.layouts(spec, cast(Layouts, WANTED))
    return Kernel(template=template, spec=spec, layouts=layouts, target=SM_80)


def old_splits(spec: Conv2d | Dense) -> list[tuple[int, int]]:
    """Return extent and ways of tile_n, tile_f, tile_y, tile_x, tile_rc, tile_ry, tile_rx."""
    if isinstance(spec, Dense):
        return [(1, 4), (spec.n // 4, 4), (1, 4), (spec.rows, 4), (spec.k // 4, 2), (1, 2), (1, 2)]
    (rows, cols), blocks = spec.out_size, spec.out_channels // 4
    if spec.kernel == (1, 1):  # one axis for the pixels: the products of both are the same
        rows, cols = 1, rows * cols
    inputs = spec.in_channels // spec.groups // 4
    spatial = [(size, 4) for size in (spec.batch, blocks, rows, cols)]
    return [*spatial, *((size, 2) for size in (inputs, *spec.kernel))]


def old_switches() -> list[tuple[int, ...]]:
    """Return reorder_inner, the double buffers, and auto_unroll_max_step."""
    return [tuple(range(len(ORDERS))), tuple(PIPELINE.values()), (0, 512, 1500)]


@pytest.mark.parametrize("spec", [CONV, GROUPED, POINTWISE, DENSE], ids=str)
def test_every_option_of_every_knob_is_there(spec):
    kernel = kernel_of(spec)
    found = trace(kernel, lambda _, options: options[0])
    splits, switches = old_splits(spec), old_switches()
    for (extent, ways), options in zip(splits, found.options, strict=False):
        assert set(tilings(extent, ways)) <= set(options)
    for wanted, options in zip(switches, found.options[len(splits) :], strict=False):
        assert set(wanted) <= set(options)
    # What is new is switched on or off: w in shared memory, padded rows, wide fetches of x.
    assert found.options[len(splits) + len(switches) :] == ((0, 1),) * 3


def test_orders_are_those_of_the_old_space():
    assert set(OURS) == set(ORDERS)


@pytest.mark.fast
@pytest.mark.parametrize(("groups", "blocks"), [(4, 4), (6, 2), (32, 1)])
def test_groups_and_their_channels_are_one_axis(groups: int, blocks: int):
    """All but strands over several groups whose channels are shared out to blocks of the grid."""
    ours = set(tilings(groups * blocks, 4))
    channels = np.arange(groups * blocks)
    for (block_g, strand_g), split in product(tilings(groups, 2), tilings(blocks, 4)):
        block_f, strand_f, threads, own = split
        old = channels.reshape(block_g, strand_g, block_f, strand_f, threads, own)
        shares = (block_g * block_f, strand_g * strand_f, threads, own)
        same = np.array_equal(old.transpose(0, 2, 1, 3, 4, 5).ravel(), channels)
        assert shares in ours
        assert same == (strand_g == 1 or block_f == 1)


def old_point(spec: Conv2d | Dense, rng: np.random.Generator) -> tuple[Option, ...]:
    """Return a random point of the old space that a GPU can run, as choices of ours."""
    while True:
        splits = [_random(rng, tilings(extent, ways)) for extent, ways in old_splits(spec)]
        threads, own = (np.prod([split[level] for split in splits[:4]]) for level in (2, 3))
        strands = np.prod([split[1] for split in splits[:4]])
        steps = np.prod([split[1] for split in splits[4:]])
        if 16 <= threads <= 256 and own * strands <= 8 and steps <= 36:
            break
    switches = [_random(rng, options) for options in old_switches()]
    w_shared, padded, wide = 1, 0, 0  # as it was
    return (*splits, *switches, w_shared, padded, wide)


def _random(rng: np.random.Generator, options: Any) -> Any:
    listed = list(options)
    return listed[int(rng.integers(len(listed)))]


SAMPLES = {
    "conv": (CONV, range(1, 7)),
    "grouped": (GROUPED, range(11, 17)),
    "pointwise": (POINTWISE, range(21, 27)),
    "dense": (DENSE, range(31, 37)),
}
QUICK = 1  # points of each, without --full


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLES)
def test_points_of_the_old_space_give_the_right_integers(name, full):
    spec, seeds = SAMPLES[name]
    seeds = seeds if full else seeds[:QUICK]
    kernel = kernel_of(spec)
    scheduled: dict[str, Schedule] = {
        f"p{seed}": point(kernel, old_point(spec, np.random.default_rng(seed))).schedule
        for seed in seeds
    }
    mod = tvm.IRModule(
        {key: sch.mod["main"].with_attr("global_symbol", key) for key, sch in scheduled.items()}
    )
    source = cuda_source(mod, SM_80)
    cases = {key: Case(spec=spec, template=kernel.template) for key in scheduled}
    emulator = Emulator(source)
    built = Built(cases=cases, target=SM_80, mod=mod, source=source, emulator=emulator)
    arrays = random_arrays(spec, np.random.default_rng(0))
    expected = reference(spec, arrays)
    for key in scheduled:
        np.testing.assert_array_equal(built.run(key, arrays), expected, err_msg=key)
