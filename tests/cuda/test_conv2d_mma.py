"""Tensor-core convolution on the emulated GPU: equal to NumPy, by default and sampled; refusals."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cuda.device.devices import compute_capability
from schedules.cuda.device.limits import asked_shared_bytes, exceeded
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA, gemm
from schedules.cuda.mma.gemm import gemm_kernel
from schedules.cuda.mma.tiles import MmaTiles
from schedules.layout import NCHW32C
from schedules.spec import Conv2d
from schedules.template import Layouts
from tests.cuda.conv2d_cases import WINDOWS
from tests.cuda.emulator import EmulationError, Emulator, cuda_source, kernels
from tests.cuda.ptx import emulator as ptx_emulator
from tests.cuda.ptx.emulator import PtxEmulator
from tests.cuda.ptx.errors import PtxError
from tests.cuda.run_template import SM_80, Built, Case, assert_equal, build
from tests.nvidia import needs_compiler
from tests.schedules.numpy_kernels import random_arrays, reference

SM_75 = Target({"kind": "cuda", "arch": "sm_75"}, host="llvm")
WANTED = Layouts(inputs=(NCHW32C, NCHW32C), output=NCHW32C)
BARRIER = "__syncthreads();"
BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 64,
    "height": 7,
    "width": 7,
    "out_channels": 64,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "uint8",
}
SMALLER: dict[str, dict[str, Any]] = {
    "several_fetches": {"in_channels": 160},
    "prime_asymmetric": {"width": 13},
    "tall": {"out_channels": 32},
}
"""The emulated instruction is slow."""
CASES: dict[str, dict[str, Any]] = {
    **{name: fields | SMALLER.get(name, {}) for name, fields in WINDOWS.items()},
    "groups": {"groups": 2, "out_channels": 128},
}


def case_of(name: str) -> Case:
    return Case(spec=Conv2d(**(BASE | CASES[name])), template=CONV2D_MMA, wanted=WANTED)


@pytest.fixture(scope="module", params=[SM_75, SM_80], ids=["sm_75", "sm_80"])
def by_default(request) -> Built:
    return build({case: case_of(case) for case in CASES}, target=request.param)


@pytest.mark.parametrize("case", CASES)
def test_default(by_default, case):
    assert_equal(by_default, case)
    assert "multiply_" in kernels(by_default.source)[f"{case}_kernel"].body


SAMPLED = ("same", "several_fetches", "prime_asymmetric", "groups")


@pytest.mark.parametrize("seed", [1, 4])
def test_sampled(seed):
    built = build({case: case_of(case) for case in SAMPLED}, seed=seed)
    for case in SAMPLED:
        assert_equal(built, case)


FEW_THREADS = {"rows": 4, "blocks": 2, "warp_rows": 1, "warp_blocks": 1, "warp_slabs": 1}
MANY_THREADS = {"rows": 1, "blocks": 1, "warp_rows": 1, "warp_blocks": 1, "warp_slabs": 4}
SHARED_OUT: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "several_pixels_a_thread": ({}, FEW_THREADS | {"slabs": 1, "stages": 2}),
    "several_taps_a_fetch": ({}, FEW_THREADS | {"slabs": 4, "stages": 2}),
    "a_slab_a_warp": ({"in_channels": 128}, MANY_THREADS | {"slabs": 4, "stages": 3}),
    "a_tap_a_warp": ({"in_channels": 32}, MANY_THREADS | {"slabs": 8, "stages": 2}),
    "threads_without_a_copy": (
        {"kernel": (1, 1)},
        MANY_THREADS | {"warp_rows": 2, "slabs": 4, "stages": 4},
    ),
    "shared_memory_that_is_asked_for": (
        {"in_channels": 512, "kernel": (1, 1)},
        {"rows": 2, "blocks": 2, "warp_rows": 2, "warp_blocks": 1, "warp_slabs": 2}
        | {"slabs": 4, "stages": 4},
    ),
    "more_blocks_than_channels": ({"out_channels": 96}, FEW_THREADS | {"slabs": 2, "stages": 3}),
    "window_of_64_bits": (
        {"kernel": (1, 33), "padding": (0, 16, 0, 16)},
        MANY_THREADS | {"slabs": 4, "stages": 2},
    ),
}
"""What differs from the base, and tiles: how slabs, taps and pixels fall to threads and copies."""


def tiled(
    names: Iterable[str], target: Target, emulator: Callable[[str], Emulator | PtxEmulator]
) -> Built:
    """Return kernels of ``SHARED_OUT``, compiled from CUDA C by ``emulator``."""
    cases, kernels_of = {}, {}
    for name in names:
        fields, tiles = SHARED_OUT[name]
        spec = Conv2d(**(BASE | {"height": 5, "width": 4} | fields))
        cases[name] = Case(spec=spec, template=CONV2D_MMA, wanted=WANTED)
        func = gemm_kernel(spec, gemm(spec), MmaTiles(**tiles))
        kernels_of[name] = func.with_attr("global_symbol", name)
    mod = tvm.IRModule(kernels_of)
    source = cuda_source(mod, target)
    return Built(cases=cases, target=target, mod=mod, source=source, emulator=emulator(source))


@pytest.mark.parametrize("target", [SM_75, SM_80], ids=["sm_75", "sm_80"])
def test_every_way_to_share_out_the_copies(target):
    capability = compute_capability(target) or 0
    built = tiled(SHARED_OUT, target, lambda source: Emulator(source, capability=capability))
    for name in SHARED_OUT:
        assert_equal(built, name)


ASKED = "shared_memory_that_is_asked_for"


@needs_compiler
@pytest.mark.parametrize("target", [SM_75, SM_80], ids=["sm_75", "sm_80"])
def test_shared_memory_that_a_launch_asks_for(target):
    built = tiled([ASKED], target, lambda source: PtxEmulator(source, str(target.attrs["arch"])))
    assert asked_shared_bytes(built.mod[ASKED]) == 64 << 10
    assert exceeded(Schedule(built.mod[ASKED].without_attr("global_symbol")), target) is None
    assert_equal(built, ASKED)


@needs_compiler
def test_a_byte_more_than_was_asked_for_is_an_error(monkeypatch):
    built = tiled([ASKED], SM_80, lambda source: PtxEmulator(source, "sm_80"))
    monkeypatch.setattr(ptx_emulator, "asked_shared_bytes", lambda _: (64 << 10) - 1)
    with pytest.raises(PtxError, match="reaches outside of shared memory"):
        assert_equal(built, ASKED)


def test_symbolic_batch():
    """Images are the outermost loop then; each has a last tile of its own."""
    spec = Conv2d(**(BASE | {"batch": tirx.Var("n", "int64"), "strides": (2, 2)}))
    built = build({"conv": Case(spec=spec, template=CONV2D_MMA, wanted=WANTED)})
    arrays = random_arrays(spec, np.random.default_rng(1), batch=3)
    np.testing.assert_array_equal(built.run("conv", arrays), reference(spec, arrays))


def broken(edit: Any, target: Target = SM_80) -> tuple[Built, dict[str, np.ndarray]]:
    """Return a convolution of several fetches whose text was edited, and arrays for it."""
    case = case_of("several_fetches")
    arrays = random_arrays(case.spec, np.random.default_rng(1))
    return build({"conv": case}, target=target, edit=edit), arrays


def without(text: str, place: int = 0) -> Any:
    """Return the edit that takes one occurrence of ``text`` out of CUDA C."""

    def edited(source: str) -> str:
        parts = source.split(text)
        assert len(parts) > place + 1
        return text.join([*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :]])

    return edited


@pytest.mark.parametrize("target", [SM_75, SM_80], ids=["sm_75", "sm_80"])
def test_a_removed_barrier_is_caught(target):
    built, arrays = broken(without(BARRIER), target)
    assert (built.run("conv", arrays) != reference(built.cases["conv"].spec, arrays)).any()


def test_a_removed_barrier_before_sums_are_joined_is_caught():
    """The first warp reads what the others have not written yet, where it runs first."""
    built, arrays = broken(without(BARRIER, place=2))
    built.emulator.begin_backwards()
    assert (built.run("conv", arrays) != reference(built.cases["conv"].spec, arrays)).any()


def test_a_removed_wait_is_caught():
    """What was not waited for is not there."""
    built, arrays = broken(lambda source: re.sub(r"wait_copies<\d>\(\);", "", source))
    assert (built.run("conv", arrays) != reference(built.cases["conv"].spec, arrays)).any()


def test_a_wait_for_too_few_copies_is_caught():
    def one_more(source: str) -> str:
        return re.sub(r"wait_copies<(\d)>", lambda found: f"wait_copies<{found[1]} + 1>", source)

    built, arrays = broken(one_more)
    assert (built.run("conv", arrays) != reference(built.cases["conv"].spec, arrays)).any()


@pytest.mark.parametrize(
    ("statement", "who", "message"),
    [
        (BARRIER, "threadIdx.y > 0", "threads of one block part at a barrier"),
        ("multiply_u8(", "threadIdx.x > 3", "threads of one warp part at an instruction of all"),
    ],
)
def test_what_some_threads_miss_is_an_error(statement, who, message):
    built, arrays = broken(lambda source: source.replace(statement, f"if ({who}) {statement}", 1))
    with pytest.raises(EmulationError, match=message):
        built.run("conv", arrays)


@pytest.mark.parametrize(
    ("offset", "message"),
    [(1, "address that the size of the access does not divide"), (1 << 20, "outside of an")],
)
def test_a_copy_from_a_wrong_address_is_an_error(offset, message):
    built, arrays = broken(lambda source: source.replace("(x_ptr[", f"(x_ptr[{offset} + "))
    with pytest.raises(EmulationError, match=message):
        built.run("conv", arrays)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "target", "reason"),
    [
        ({}, {"kind": "llvm"}, "target is llvm, not cuda"),
        ({}, {"kind": "cuda", "arch": "sm_70"}, "sm_70 has no tensor cores for bytes; sm_75 has"),
        ({"x": "float32", "y": "float32"}, {"kind": "cuda", "arch": "sm_80"}, "x is float32"),
        ({"groups": 4}, {"kind": "cuda", "arch": "sm_80"}, "groups of 16 -> 16 channels; want"),
        ({"kernel": (60, 3), "height": 60}, {"kind": "cuda", "arch": "sm_80"}, "want at most 62"),
        ({"residual": "float32"}, {"kind": "cuda", "arch": "sm_80"}, "both must be floats"),
    ],
)
def test_refusals(fields, target, reason):
    refusal = CONV2D_MMA.refuses(Conv2d(**(BASE | fields)), Target(target))
    assert refusal is not None and reason in refusal
