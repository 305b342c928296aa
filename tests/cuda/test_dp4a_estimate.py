"""Default tiles of dp4a that an estimate chooses: equal to NumPy, fewer instructions, no others."""

import functools
from itertools import islice
from typing import Any

import pytest
import tvm
from tvm.s_tir import Schedule

from schedules.cuda.device.gpus import GPUS
from schedules.cuda.device.limits import STATIC_BYTES, exceeded
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.default_tiles import best_by_estimate, best_by_score
from schedules.cuda.dp4a.estimate import issue_cycles, least_issue_cycles, shared_bytes
from schedules.cuda.dp4a.splits import Extents, splits, windows
from schedules.cuda.toolchain.fat_binary import bundle
from schedules.cuda.toolchain.main_loop import MainLoop, main_loop
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.cuda.toolchain.sass import disassemble
from schedules.spec import Conv2d
from tests.cuda.emulator import Emulator, cuda_source
from tests.cuda.ptx.emulator import PtxEmulator
from tests.cuda.run_template import (
    SM_61,
    SM_80,
    WANTED,
    Built,
    Case,
    assert_equal,
    schedule,
    scheduled,
)
from tests.nvidia import needs_compiler

PASCAL = GPUS[61]


def conv(inputs: int, outputs: int, size: int, kernel: int, **fields: Any) -> Conv2d:
    shape: dict[str, Any] = {"height": size, "width": size, "kernel": (kernel, kernel)}
    types: dict[str, Any] = {"batch": 1, "x": "uint8", "y": "uint8", "padding": (kernel // 2,) * 4}
    return Conv2d(in_channels=inputs, out_channels=outputs, **(shape | types | fields))


RESNET = {
    "14": conv(256, 256, 14, 3),
    "7": conv(512, 512, 7, 3),
    "14_to_7": conv(512, 512, 14, 3, strides=(2, 2)),
    "pointwise_28": conv(512, 256, 28, 1),
    "pointwise_14": conv(1024, 256, 14, 1),
    "pointwise_7": conv(2048, 512, 7, 1),
}
BATCH = conv(256, 256, 14, 3, batch=16)
SMALL = {
    "slices": conv(192, 32, 28, 1),
    "many_slices": conv(512, 64, 7, 1, x="int8", y="int8"),
    "no_slices": conv(32, 192, 28, 1, residual="uint8"),
}
KEPT = {
    "resnet_28": conv(128, 128, 28, 3),
    "resnet_56": conv(64, 256, 56, 1),
    "resnet_7_wide": conv(512, 2048, 7, 1),
    "depthwise": conv(96, 96, 28, 3, groups=96),
    "floats": conv(512, 512, 7, 3, x="float32", y="float32"),
}


def extents_of(spec: Conv2d) -> Extents:
    kernel = CONV2D_DP4A.kernel(spec, CONV2D_DP4A.layouts(spec, WANTED))
    return Extents.of(Schedule(kernel.with_attr("global_symbol", "main")), spec)


@pytest.mark.fast
@pytest.mark.parametrize("name", RESNET)
def test_it_takes_clearly_fewer_instructions_and_fits_every_gpu(name):
    spec = RESNET[name]
    extents = extents_of(spec)
    before = best_by_score(extents, spec, PASCAL)
    after = best_by_estimate(extents, spec, PASCAL, before)
    assert after != before
    issued = [issue_cycles(extents, spec, *tiles, PASCAL) for tiles in (before, after)]
    assert issued[1] < 0.92 * issued[0]
    assert shared_bytes(extents, spec, *after) <= STATIC_BYTES


@pytest.mark.fast
@pytest.mark.parametrize("spec", [RESNET["7"], SMALL["many_slices"], SMALL["no_slices"]])
def test_tiles_are_left_out_only_where_no_window_has_few_instructions(spec):
    extents = extents_of(spec)
    parts = list(windows(extents))
    for split in islice(splits(extents, STATIC_BYTES), 0, None, 20):
        least = least_issue_cycles(extents, split, PASCAL)
        assert 0 < least <= min(issue_cycles(extents, spec, split, part, PASCAL) for part in parts)


@pytest.mark.parametrize("name", [*RESNET, "batch"])
def test_defaults_fit_a_block(name):
    """Arrays have room for the last accesses of all threads."""
    spec, target = (BATCH, SM_80) if name == "batch" else (RESNET[name], SM_61)
    kernel = schedule(Case(spec=spec, template=CONV2D_DP4A), target)
    assert exceeded(Schedule(kernel), target) is None


@pytest.mark.fast
@pytest.mark.parametrize("name", KEPT)
def test_without_a_clear_gain_tiles_stay(name):
    spec = KEPT[name]
    extents = extents_of(spec)
    before = best_by_score(extents, spec, PASCAL)
    assert best_by_estimate(extents, spec, PASCAL, before) == before


@functools.cache
def small() -> tuple[dict[str, Case], tvm.IRModule, str]:
    cases = {name: Case(spec=spec, template=CONV2D_DP4A) for name, spec in SMALL.items()}
    mod = scheduled(cases, SM_61)
    return cases, mod, cuda_source(mod, SM_61)


def test_small_layers_have_such_tiles_and_equal_numpy():
    cases, mod, source = small()
    emulator = Emulator(source, capability=61)
    for name, spec in SMALL.items():
        extents = extents_of(spec)
        before = best_by_score(extents, spec, PASCAL)
        assert best_by_estimate(extents, spec, PASCAL, before) != before
        assert_equal(
            Built(cases=cases, target=SM_61, mod=mod, source=source, emulator=emulator), name
        )


def test_whole_windows_equal_numpy():
    cases = {"conv": Case(spec=RESNET["7"], template=CONV2D_DP4A)}
    mod = scheduled(cases, SM_61)
    source = cuda_source(mod, SM_61)
    emulator = Emulator(source, capability=61, optimize=True)
    assert_equal(
        Built(cases=cases, target=SM_61, mod=mod, source=source, emulator=emulator), "conv"
    )


@needs_compiler
@pytest.mark.parametrize("architecture", ["sm_61", "sm_80"])
@pytest.mark.parametrize("name", ["many_slices", "no_slices"])
def test_their_ptx_equals_numpy(architecture, name):
    cases, mod, source = small()
    emulator = PtxEmulator(source, architecture)
    assert_equal(Built(cases=cases, target=SM_61, mod=mod, source=source, emulator=emulator), name)


@pytest.fixture(scope="module")
def loops() -> dict[str, MainLoop]:
    """Main loops as machine code of sm_75: NVIDIA's disassembler does not read sm_61."""
    pytest.importorskip("nvidia.cu13", reason="needs NVIDIA's disassembler, of the extra sass")
    mod = scheduled({f"conv_{name}": Case(spec=spec) for name, spec in RESNET.items()}, SM_61)
    found = disassemble(bundle([Nvrtc().compile(cuda_source(mod, SM_61), "sm_75")]))
    return {kernel.name: main_loop(kernel.text) for kernel in found.kernels}


@needs_compiler
@pytest.mark.parametrize("name", RESNET)
def test_of_the_main_loop_most_is_dp4a(loops, name):
    assert loops[f"conv_{name}_kernel"].share >= 0.7
