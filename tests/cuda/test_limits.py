"""A sample that no GPU can run is refused before anything compiles it."""

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.target import Target

from relay_int8.tuning import bench
from relay_int8.tuning.batch import Batch
from relay_int8.tuning.bench import compile_batch
from schedules.cuda.device import limits
from schedules.cuda.device.limits import exceeded
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.space import Kernel, draw, first, point
from schedules.spec import Conv2d, to_json
from schedules.targets import target_config
from schedules.task import Task
from schedules.template import ScheduleError
from tests.cuda.emulator import cuda_source
from tests.cuda.run_template import SM_80, Case, schedule
from tests.cuda.test_conv2d_dp4a import BASE, case_of
from tests.nvidia import needs_compiler

LARGE = Case(
    spec=Conv2d(**BASE | {"in_channels": 64, "out_channels": 256, "height": 48, "width": 48}),
    template=CONV2D_DP4A,
)


def copy_through(threads: int, elements: int, scope: str) -> Schedule:
    """Return a kernel that stages ``elements`` floats in shared memory."""

    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((elements,), "float32"), y: T.Buffer((elements,), "float32")):
        for i in range(elements):
            with T.sblock("copy"):
                v = T.axis.spatial(elements, i)
                y[v] = x[v]

    sch = Schedule(tvm.IRModule({"main": main}))
    block = sch.get_sblock("copy")
    staged = sch.cache_read(block, 0, scope)
    grid, thread = sch.split(sch.get_loops(block)[0], [None, threads])
    sch.bind(thread, "threadIdx.x")
    one = sch.split(grid, [1, None])
    sch.bind(one[0], "blockIdx.x")
    sch.compute_at(staged, one[0])
    sch.bind(sch.split(sch.get_loops(staged)[-1], [None, threads])[1], "threadIdx.x")
    return sch


def on(arch: str) -> Target:
    return Target({"kind": "cuda", "arch": arch}, host="llvm")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("threads", "elements", "scope", "arch", "reason"),
    [
        (1024, 12 * 1024, "shared", "sm_90", None),
        (1280, 12800, "shared", "sm_90", "1280 threads in a block, a GPU runs 1024 at most"),
        (64, 12 * 1024 + 64, "shared", "sm_90", "49408 bytes of shared memory in a block, sm_90"),
        (64, 16 * 1024, "shared.dyn", "sm_75", None),
        (64, 16 * 1024 + 64, "shared.dyn", "sm_75", "65792 bytes of shared.dyn memory in a block"),
        (64, 16 * 1024 + 64, "shared.dyn", "sm_80", None),
    ],
)
def test_limits(threads, elements, scope, arch, reason):
    found = exceeded(copy_through(threads, elements, scope), on(arch))
    assert found is None if reason is None else found is not None and found.startswith(reason)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("threads", "each", "reason"),
    [
        (32, 255, None),
        (32, 256, "256 registers for the arrays of each of 32 threads, a GPU has 255 at most"),
        (512, 128, None),
        (512, 129, "129 registers for the arrays of each of 512 threads, a GPU has 128 at most"),
    ],
)
def test_arrays_that_no_registers_hold(threads, each, reason):
    @T.prim_func(private=True, s_tir=True)
    def main(x: T.Buffer((threads, each), "float32"), y: T.Buffer((threads, each), "float32")):
        for thread in T.thread_binding(threads, "threadIdx.x"):
            for i in range(each):
                with T.sblock("copy"):
                    t, v = T.axis.remap("SS", [thread, i])
                    y[t, v] = x[t, v]

    sch = Schedule(tvm.IRModule({"main": main}))
    block = sch.get_sblock("copy")
    sch.compute_at(sch.cache_read(block, 0, "local"), sch.get_loops(block)[0])
    assert exceeded(sch, on("sm_90")) == reason


@pytest.mark.fast
def test_a_cpu_has_no_such_limits():
    assert exceeded(copy_through(1280, 12800, "shared"), Target({"kind": "llvm"})) is None


@needs_compiler
@pytest.mark.parametrize("name", ["same", "several_fetches", "residual_u8"])
def test_shared_memory_is_what_the_assembler_says(monkeypatch, name):
    func = schedule(case_of(name), SM_80)
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    usage = Nvrtc().compile(cuda_source(mod, SM_80), "sm_80").usage["main_kernel"]
    monkeypatch.setattr(limits, "STATIC_BYTES", usage.shared_bytes)
    assert exceeded(Schedule(func), SM_80) is None
    monkeypatch.setattr(limits, "STATIC_BYTES", usage.shared_bytes - 1)
    assert str(exceeded(Schedule(func), SM_80)).startswith(f"{usage.shared_bytes} bytes")


def oversized(case: Case) -> tuple[Kernel, tuple[object, ...]]:
    """Return a point of a large kernel whose block is too large."""
    template = case.choice(SM_80)
    layouts = template.layouts(case.spec, case.wanted)
    kernel = Kernel(template=template, spec=case.spec, layouts=layouts, target=SM_80)
    count, rng = len(first(kernel).choices), np.random.default_rng(1)
    for _ in range(200):
        choices = draw(kernel, lambda _, options: options[rng.integers(len(options))], count)
        try:
            point(kernel, choices)
        except ScheduleError:
            return kernel, choices
    raise AssertionError("every sample fits")


def test_an_oversized_sample_is_refused_and_never_compiled(monkeypatch):
    kernel, choices = oversized(LARGE)
    with pytest.raises(ScheduleError, match=r"in a block|registers for the arrays"):
        point(kernel, choices)
    monkeypatch.setattr(bench.tvm, "compile", lambda *_, **__: pytest.fail("it was compiled"))
    layouts = (*kernel.layouts.inputs, kernel.layouts.output)
    task = Task(
        template=kernel.template.name,
        spec=to_json(kernel.spec),
        layouts=tuple(layout.name for layout in layouts),
    )
    batch = Batch(task=task, target=target_config(SM_80), candidates=(choices,))
    _, library, refusals = compile_batch(batch)
    assert library is None and "at most" in refusals[0]
