"""Default kernels stay in registers: by the assembler's word nothing is spilled, nothing on a stack.

By default some kernels of ResNet-50 at its published size; with --full those of all networks of the
zoo, cut to one block of each kind: whole ones have more kernels of the same kinds.
"""

import math
from collections.abc import Collection, Iterator, Mapping

import pytest
import tvm
from tvm import tirx
from tvm.target import Target
from tvm_ffi import structural_equal

from benchmarks import zoo
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.frontend.onnx import import_onnx
from relay_int8.tuning.network import network_tasks
from schedules.cuda.toolchain.nvrtc import KernelUsage, Nvrtc
from schedules.layout import NCHW4C, ROW
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Conv2d, Dense, Sample2d, Spec
from schedules.task import Task
from schedules.template import Layouts
from tests.cuda.emulator import cuda_source, launch_size
from tests.nvidia import needs_compiler

pytestmark = needs_compiler


def conv(channels: tuple[int, int], size: int, kernel: int = 1, stride: int = 1, **other) -> Conv2d:
    border = kernel // 2
    return Conv2d(
        batch=1,
        in_channels=channels[0],
        out_channels=channels[1],
        height=size,
        width=size,
        kernel=(kernel, kernel),
        strides=(stride, stride),
        padding=(border,) * 4,
        dilation=(1, 1),
        groups=1,
        x=other.pop("x", "uint8"),
        y="uint8",
        residual=other.pop("residual", None),
        leaky=False,
    )


RESNET50 = {
    "stem": conv((3, 64), 224, 7, 2, x="int8"),
    "window": conv((64, 64), 56, 3),
    "wide_residual": conv((64, 256), 56, residual="uint8"),
    "strided": conv((256, 512), 56, stride=2),
    "last_window": conv((512, 512), 7, 3),
    "scores": Dense(rows=1, n=1000, k=2048, x="uint8", y="float32", leaky=False),
}

COMPILED_TOGETHER = 24  # kernels: all of them are compiled again where one spills
REGISTERS = 65536  # of a multiprocessor, which a block has to itself if need be
MOST_REGISTERS = 255  # of a thread


def on(arch: str) -> Target:
    return Target({"kind": "cuda", "arch": arch}, host="llvm")


def default_kernel(spec: Spec, target: Target) -> Kernel:
    template = select(spec, target)
    wanted = ROW if isinstance(spec, Dense) else NCHW4C
    layouts = template.layouts(spec, Layouts(inputs=(wanted,) * len(spec.tensors), output=wanted))
    return Kernel(template=template, spec=spec, layouts=layouts, target=target)


def scheduled(kernel: Kernel) -> tirx.PrimFunc:
    return kernel.function(kernel.default())


def usage(functions: Mapping[str, tirx.PrimFunc], target: Target) -> dict[str, KernelUsage]:
    """Return what scheduled kernels take of a multiprocessor."""
    mod = tvm.IRModule(
        {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
    )
    return Nvrtc().compile(cuda_source(mod, target), str(target.attrs["arch"])).usage


def assert_in_registers(found: dict[str, KernelUsage], with_stack: Collection[str] = ()) -> None:
    """Check that nothing is spilled, and that only some kernels have arrays in memory."""
    outside = {
        name: use
        for name, use in found.items()
        if use.spilled_bytes or (use.stack_bytes and name.removesuffix("_kernel") not in with_stack)
    }
    assert not outside


@pytest.mark.parametrize("arch", ["sm_61", "sm_80"])
def test_resnet50(arch):
    target = on(arch)
    functions = {name: scheduled(default_kernel(spec, target)) for name, spec in RESNET50.items()}
    found = usage(functions, target)
    assert len(found) >= len(RESNET50)
    assert_in_registers(found)


@pytest.mark.slow
@pytest.mark.parametrize("archs", [("sm_61",), ("sm_80", "sm_90")], ids="-".join)
def test_the_zoo(archs, full):
    """Networks have many kernels in common, those of ``archs`` all: each is compiled once.

    A kernel that takes few registers on one GPU is not compiled again, if it is the same, for the next.
    """
    if not full:
        pytest.skip("needs --full")
    tasks = zoo_tasks(on(archs[0]))
    # Where TVM does not see that a thread samples at one place, it keeps the corners of several.
    samples = [name for name, task in tasks.items() if isinstance(task.operator, Sample2d)]
    modest: dict[str, tirx.PrimFunc] = {}
    for target in map(on, archs):
        functions = {name: scheduled(kernel_for(task, target)) for name, task in tasks.items()}
        new = [
            name
            for name, func in functions.items()
            if name not in modest or not structural_equal(func, modest[name])
        ]
        found: dict[str, KernelUsage] = {}
        for names in chunks(new, COMPILED_TOGETHER):
            found |= usage({name: functions[name] for name in names}, target)
        assert len(found) >= len(new)
        assert_in_registers(found, samples)
        modest = {name: functions[name] for name in new if is_modest(name, functions[name], found)}


def is_modest(name: str, func: tirx.PrimFunc, found: Mapping[str, KernelUsage]) -> bool:
    """Say whether a thread takes less than half of the registers that it may have, and no memory."""
    uses = [use for kernel, use in found.items() if kernel.partition("_kernel")[0] == name]
    allowed = min(MOST_REGISTERS, REGISTERS // math.prod(launch_size(func)[3:]))
    return all(use.stack_bytes == 0 and use.registers < allowed // 2 for use in uses)


def kernel_for(task: Task, target: Target) -> Kernel:
    """Return the kernel of a task of another GPU: a few large layers have another template here."""
    if select(task.operator, target).name == task.template:
        return task.kernel(target)
    return default_kernel(task.operator, target)


def zoo_tasks(target: Target) -> dict[str, Task]:
    """Return the distinct kernels of networks of published sizes, by names for CUDA C."""
    with sharing_kernels():
        keys = {
            task.key: task
            for name in zoo.NETWORKS
            for task in network_tasks(import_onnx(zoo.build(name, depth="cut")), target)
        }
    return {f"k{i}": task for i, task in enumerate(keys.values())}


def chunks(names: list[str], size: int) -> Iterator[list[str]]:
    return (names[start : start + size] for start in range(0, len(names), size))
