"""Default kernels stay in registers: by the assembler's word nothing is spilled, nothing on a stack.

By default some kernels of ResNet-50 at its published size; with --full those of the whole zoo.
"""

import importlib.util
from collections.abc import Collection

import pytest
import tvm
from tvm.target import Target

from benchmarks import zoo
from relay_int8.frontend.onnx import import_onnx
from relay_int8.tuning.network import network_tasks
from schedules.catalog import select
from schedules.cuda.toolchain.nvrtc import KernelUsage, Nvrtc
from schedules.layout import NCHW4C, ROW
from schedules.space import Kernel
from schedules.spec import Conv2d, Dense, Sample2d, Spec
from schedules.task import Task
from schedules.template import Layouts
from tests.cuda.emulator import cuda_source

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="needs NVIDIA's compilers, of the extra cuda"
)


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


def on(arch: str) -> Target:
    return Target({"kind": "cuda", "arch": arch}, host="llvm")


def default_kernel(spec: Spec, target: Target) -> Kernel:
    template = select(spec, target)
    wanted = ROW if isinstance(spec, Dense) else NCHW4C
    layouts = template.layouts(spec, Layouts(inputs=(wanted,) * len(spec.tensors), output=wanted))
    return Kernel(template=template, spec=spec, layouts=layouts, target=target)


def usage(kernels: dict[str, Kernel], target: Target) -> dict[str, KernelUsage]:
    mod = tvm.IRModule(
        {
            name: kernel.default().mod["main"].with_attr("global_symbol", name)
            for name, kernel in kernels.items()
        }
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
    found = usage({name: default_kernel(spec, target) for name, spec in RESNET50.items()}, target)
    assert len(found) >= len(RESNET50)
    assert_in_registers(found)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_61", "sm_80", "sm_90"])
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_the_zoo(name, arch, full):
    if not full:
        pytest.skip("needs --full")
    target = on(arch)
    tasks: tuple[Task, ...] = network_tasks(import_onnx(zoo.build(name)), target)
    kernels = {f"k{i}": task.kernel(target) for i, task in enumerate(tasks)}
    # Where TVM does not see that a thread samples at one place, it keeps the corners of several.
    samples = [key for key, kernel in kernels.items() if isinstance(kernel.spec, Sample2d)]
    assert_in_registers(usage(kernels, target), samples)
