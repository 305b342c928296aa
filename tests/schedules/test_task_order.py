"""Tasks of window kernels: neighbours are channels of the same rows, and each task is there once."""

import pytest
import tvm_ffi
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.sym import Analyzer
from tvm.target import Target

from schedules.cpu.windows.task_order import rows_first
from schedules.cpu.windows.window_tiles import WindowTiles, apply
from schedules.x86.depthwise_vnni import DEPTHWISE_VNNI
from tests.schedules.conv_runs import WANTED, assert_equal, conv

pytestmark = pytest.mark.fast

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake"})
SPEC = conv(40, (6, 4), batch=2)  # 3 blocks of channels


def scheduled(spec, rows=2, *, parallel=True):
    sch = Schedule(DEPTHWISE_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    apply(sch, WindowTiles(rows, 1), parallel=parallel)
    return sch.mod["main"]


def tasks(func):
    """Return image, block of channels and first row of each task, in order."""
    loops, blocks = [], []
    tvm_ffi.structural_walk(func.body, (tirx.For, loops.append))
    tvm_ffi.structural_walk(
        func.body,
        (object, lambda node: blocks.append(node) if hasattr(node, "iter_values") else None),
    )
    (parallel,) = [loop for loop in loops if loop.kind == tirx.ForKind.PARALLEL]
    block = next(each for each in blocks if each.block.name_hint == "windows")
    inner = {loop.loop_var: 0 for loop in loops if not loop.loop_var.same_as(parallel.loop_var)}
    analyzer = Analyzer()

    def value(expression, task):
        values = {**inner, parallel.loop_var: task}
        known = tvm_ffi.structural_map(
            expression, (tirx.Var, lambda var: tirx.const(values[var], "int64"))
        )
        return int(analyzer.simplify(known))

    places = block.iter_values[:3]
    return [tuple(value(each, task) for each in places) for task in range(int(parallel.extent))]


def test_rows_are_outside_of_channels():
    before, after = scheduled(SPEC), rows_first(scheduled(SPEC))
    expected = [(n, c, h) for n in range(2) for c in range(3) for h in (0, 2, 4)]
    assert tasks(before) == expected
    assert tasks(after) == sorted(expected, key=lambda task: (task[0], task[2], task[1]))


def test_the_scheduled_kernel_stays_as_it_was():
    func = scheduled(SPEC)
    before = func.script()
    rows_first(func)
    assert func.script() == before


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (SPEC, {"parallel": False}),
        (conv(40, (6, 4), batch=tirx.Var("batch", "int64")), {}),
    ],
    ids=["one thread", "open batch"],
)
def test_others_are_left_alone(spec, options):
    func = scheduled(spec, **options)
    assert rows_first(func).script() == func.script()


@pytest.mark.isa("avx512_vnni")
def test_every_element_is_written():
    """Rows that tiles do not divide, several images and a last block that is not full."""
    assert_equal(
        DEPTHWISE_VNNI,
        conv(40, (7, 6), batch=2),
        VNNI,
        lambda sch, spec, target: apply(sch, WindowTiles(3, 1)),
    )
