"""Defaults of the layers of well-known networks: no spills, shared memory that every GPU has."""

import math
from typing import Any

import pytest
import tvm
from tvm.target import Target

from schedules.cuda.device.devices import gpu_for
from schedules.cuda.device.occupancy import occupancy
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.dense import DENSE_DP4A
from schedules.cuda.toolchain.nvrtc import Nvrtc, with_few_blocks
from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleTemplate
from tests.cuda.emulator import cuda_source, launch_size
from tests.cuda.run_template import Case, schedule
from tests.nvidia import require_compiler

SHARED_BYTES = 48 * 1024  # of a block, without asking for more
ARCHITECTURES = ("sm_61", "sm_80", "sm_90")


def conv(inputs: int, outputs: int, size: int, kernel: int = 3, **fields: Any) -> Conv2d:
    square: dict[str, Any] = {"height": size, "width": size, "kernel": (kernel, kernel)}
    types: dict[str, Any] = {"batch": 1, "x": "uint8", "y": "uint8", "padding": (kernel // 2,) * 4}
    return Conv2d(in_channels=inputs, out_channels=outputs, **(square | types | fields))


CONVS = {
    "resnet_stem": conv(3, 64, 224, 7, strides=(2, 2)),
    "resnet_56": conv(64, 64, 56),
    "resnet_56_residual": conv(64, 256, 56, 1, residual="uint8"),
    "resnet_28_strided": conv(128, 128, 56, strides=(2, 2)),
    "resnet_14": conv(256, 256, 14),
    "resnet_7": conv(512, 512, 7),
    "resnet_7_pointwise": conv(2048, 512, 7, 1),
    "resnet_14_batch": conv(256, 256, 14, batch=16),
    "resnet_56_batch": conv(64, 64, 56, batch=16),
    "resnext_56": conv(128, 128, 56, groups=32),
    "resnext_14": conv(512, 512, 14, groups=32),
    "mobilenet_112": conv(64, 64, 112, groups=64, strides=(2, 2)),
    "mobilenet_112_strided": conv(96, 96, 112, groups=96, strides=(2, 2)),
    "mobilenet_14": conv(512, 512, 14, groups=512),
    "inception_17": conv(192, 192, 17, kernel=7),
}
DENSES = {
    "classifier": Dense(rows=1, n=1000, k=2048, x="uint8", y="float32"),
    "classifier_batch": Dense(rows=16, n=1000, k=2048, x="uint8", y="float32"),
    "matrix": Dense(rows=256, n=4096, k=4096, x="int8", y="int8"),
}
LAYERS: dict[str, tuple[Conv2d | Dense, ScheduleTemplate]] = {
    **{name: (spec, CONV2D_DP4A) for name, spec in CONVS.items()},
    **{name: (spec, DENSE_DP4A) for name, spec in DENSES.items()},
}
QUICK = ("resnet_7_pointwise", "mobilenet_14", "classifier")


def module(names, target: Target) -> tvm.IRModule:
    scheduled = {}
    for name in names:
        spec, template = LAYERS[name]
        func = schedule(Case(spec=spec, template=template), target)
        scheduled[name] = func.with_attr("global_symbol", name)
    return tvm.IRModule(scheduled)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_spills(architecture: str, full: bool):
    require_compiler()
    if not full and architecture != "sm_80":
        pytest.skip("needs --full")
    target = Target({"kind": "cuda", "arch": architecture}, host="llvm")
    names = tuple(LAYERS) if full else QUICK
    usage = Nvrtc().compile(cuda_source(module(names, target), target), architecture).usage
    assert len(usage) == len(names)
    for name, use in usage.items():
        assert not use.spilled_bytes and not use.stack_bytes, name
        assert use.shared_bytes <= SHARED_BYTES, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_blocks_are_whole_and_many(architecture: str):
    """Batch 1 or not, most of a GPU has work: the reduction is split where the image is small."""
    target = Target({"kind": "cuda", "arch": architecture}, host="llvm")
    mod = module(("resnet_56", "resnet_14", "resnet_7", "mobilenet_14", "classifier"), target)
    for func in mod.functions.values():
        sizes = launch_size(func)
        assert math.prod(sizes[3:]) <= 256
        assert math.prod(sizes) >= min(8_000, 256 * gpu_for(target).cores)


def test_windows_are_fetched_whole_where_their_taps_alone_reuse_x():
    """Tap by tap each word would be fetched 5 times and more, and one block fill a multiprocessor."""
    require_compiler()
    target = Target({"kind": "cuda", "arch": "sm_61"}, host="llvm")
    mod = module(("resnet_stem", "mobilenet_112_strided"), target)
    usage = Nvrtc().compile(cuda_source(mod, target), "sm_61").usage
    for name, func in mod.functions.items():
        use = usage[f"{name.name_hint}_kernel"]
        filling = occupancy(
            "sm_61",
            threads=math.prod(launch_size(func)[3:]),
            registers=use.registers,
            shared_bytes=use.shared_bytes,
            blocks=None,
        )
        assert filling.resident >= 4 and use.registers <= 128, name


@pytest.mark.fast
def test_only_kernels_that_spill_are_bounded():
    text = (
        "void __launch_bounds__(224) a_kernel(int* x) {}\nvoid __launch_bounds__(64) b_kernel() {}"
    )
    bounded = with_few_blocks(text, ["a_kernel"])
    assert "__launch_bounds__(224, 2) a_kernel(int* x)" in bounded
    assert "__launch_bounds__(64) b_kernel()" in bounded
