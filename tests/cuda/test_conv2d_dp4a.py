"""dp4a convolution on the emulated GPU: equal to NumPy, by default and sampled; refusals."""

import math
import re
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.layout import NCHW4C, NCHW8C, NCHW16C, NCHW32C, NHWC, ROW, Layout
from schedules.spec import Conv2d
from schedules.template import Layouts
from tests.cuda.conv2d_cases import WINDOWS
from tests.cuda.emulator import EmulationError, kernels, launch_size
from tests.cuda.run_template import Built, Case, assert_equal, build
from tests.schedules.numpy_kernels import random_arrays, reference

BARRIER = "__syncthreads();"
BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 16,
    "height": 7,
    "width": 7,
    "out_channels": 24,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "uint8",
}
RUNS: dict[str, tuple[int, dict[str, Any]]] = {
    "border": (16, {"width": 28, "height": 5}),
    "wide_border": (16, {"width": 24, "kernel": (5, 5), "padding": (2, 3, 2, 1), "x": "int8"}),
    "strided": (16, {"width": 20, "strides": (2, 2), "padding": (0, 1, 1, 0), "batch": 2}),
    "dilated": (16, {"width": 20, "dilation": (1, 2), "padding": (1, 2, 1, 2)}),
    "no_border": (16, {"width": 16, "kernel": (3, 1), "padding": (0, 0, 0, 0)}),
    "odd_no_border": (8, {"width": 18, "kernel": (2, 2), "padding": (0, 0, 0, 0), "x": "int8"}),
    "half": (8, {"width": 14, "height": 14, "residual": "uint8"}),
    "depthwise": (16, {"width": 28, "groups": 24, "in_channels": 24}),
    "odd": (4, {"width": 15}),
}
"""Rows that are whole runs of words, and the bytes of x that one access fetches."""
CASES: dict[str, dict[str, Any]] = {
    **WINDOWS,
    **{f"runs_{name}": fields for name, (_, fields) in RUNS.items()},
    "groups": {"groups": 4, "in_channels": 32, "out_channels": 48},
    "narrow_groups": {"groups": 8, "in_channels": 32, "out_channels": 32, "x": "int8"},
    "groups_of_six": {"groups": 5, "in_channels": 30, "out_channels": 30, "dilation": (2, 2)},
    "groups_of_three_to_five": {"groups": 4, "in_channels": 12, "out_channels": 20},
    "channel_multiplier": {"groups": 8, "in_channels": 8, "out_channels": 24, "leaky": True},
    "depthwise": {"groups": 24, "in_channels": 24, "batch": 2, "residual": "uint8"},
    "depthwise_strided": {
        "groups": 22, "in_channels": 22, "out_channels": 22, "x": "int8", "y": "int8",
        "strides": (2, 2), "kernel": (5, 3), "height": 12,
    },
    "depthwise_large": {
        "groups": 8, "in_channels": 8, "out_channels": 8, "height": 112, "width": 112,
    },
    "unsplit": {"height": 33, "width": 40, "in_channels": 8},
    "unsplit_pointwise": {
        "kernel": (1, 1), "padding": (0, 0, 0, 0), "height": 36, "width": 36, "in_channels": 40,
    },
}  # fmt: skip
WIDER = {
    "eight": (NCHW8C, NCHW8C, NCHW8C),
    "sixteen_to_four": (NCHW16C, NCHW4C, NCHW4C),
    "thirty_two": (NCHW32C, NCHW32C, NCHW32C),
    "four_to_thirty_two": (NCHW4C, NCHW32C, NCHW32C),
}
"""Layouts of x, r, y."""


def case_of(name: str) -> Case:
    return Case(spec=Conv2d(**(BASE | CASES[name])), template=CONV2D_DP4A)


@pytest.fixture(scope="module")
def by_default() -> Built:
    return build({case: case_of(case) for case in CASES})


@pytest.mark.parametrize("case", CASES)
def test_default(by_default, case):
    assert_equal(by_default, case)
    assert "__dp4a(" in kernels(by_default.source)[f"{case}_kernel"].body


@pytest.fixture(scope="module")
def wider() -> Built:
    """Kernels whose channels do not fill the last block, by layout."""
    cases = {}
    for name, (x, r, y) in WIDER.items():
        wanted = Layouts(inputs=(x, r), output=y)
        for base in ("residual_s8_leaky", "depthwise_residual"):
            fields = CASES["residual_s8_leaky"] | {"in_channels": 44, "out_channels": 44}
            groups = {"groups": 44} if base == "depthwise_residual" else {}
            spec = Conv2d(**(BASE | fields | groups))
            assert CONV2D_DP4A.layouts(spec, wanted) == wanted
            cases[f"{base}_{name}"] = Case(spec=spec, wanted=wanted, template=CONV2D_DP4A)
    return build(cases)


@pytest.mark.parametrize("name", WIDER)
@pytest.mark.parametrize("base", ["residual_s8_leaky", "depthwise_residual"])
def test_layouts_of_wider_blocks(wider, name, base):
    assert_equal(wider, f"{base}_{name}")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("wanted", "fields", "found"),
    [
        (NCHW32C, {}, NCHW32C),
        (ROW, {}, NCHW4C),
        (NHWC, {}, NCHW4C),
        (Layout("NCHW6c", 6), {}, NCHW4C),
        (NCHW32C, {"y": "float32", "out_channels": 40}, NCHW4C),
    ],
)
def test_what_layouts_it_takes(wanted, fields, found):
    """Words lie within blocks; float lanes past the last channel must be written, so are few."""
    layouts = CONV2D_DP4A.layouts(
        Conv2d(**(BASE | fields)), Layouts(inputs=(wanted,), output=wanted)
    )
    assert layouts.output == found


@pytest.mark.parametrize("name", RUNS)
def test_rows_that_are_whole_runs_are_fetched_in_runs(by_default, name):
    """Vectors of words are read from x where a tile of columns is whole runs, as by default."""
    body = kernels(by_default.source)[f"runs_{name}_kernel"].body
    accesses = re.findall(r"\*\(u?int([24]?)\*\)\(x_ptr", body)
    assert {4 * int(words or 1) for words in accesses} == {RUNS[name][0]}


SAMPLED = (
    "same",
    "several_fetches",
    "pointwise",
    "prime_asymmetric",
    "strided_dilated",
    "groups",
    "depthwise",
    "groups_of_six",
    "unsplit",
    "unsplit_pointwise",
    "runs_strided",
    "runs_dilated",
    "runs_half",
)


@pytest.mark.parametrize("seed", range(1, 5))
def test_sampled(seed):
    """Points of the space; those whose block is larger than any GPU allows are skipped one by one."""
    built = build({case: case_of(case) for case in SAMPLED}, seed=seed)
    fitting = [case for case in SAMPLED if fits(built.mod[case])]
    for case in fitting:
        assert_equal(built, case)
    assert len(fitting) > 2


def fits(func) -> bool:
    return math.prod(launch_size(func)[3:]) <= 1024


@pytest.mark.parametrize("place", [0, 1])
def test_a_removed_barrier_is_caught(place):
    """Without a barrier, threads read what others have not written, or no longer hold."""

    def without(source: str) -> str:
        parts = source.split(BARRIER)
        assert len(parts) > 2
        kept = [*parts[:place], parts[place] + parts[place + 1], *parts[place + 2 :]]
        return BARRIER.join(kept)

    case = case_of("several_fetches")
    arrays = random_arrays(case.spec, np.random.default_rng(1))
    broken = build({"conv": case}, edit=without)
    assert (broken.run("conv", arrays) != reference(case.spec, arrays)).any()


def test_a_barrier_that_some_threads_miss_is_an_error():
    def diverging(source: str) -> str:
        return source.replace(BARRIER, f"if (threadIdx.x > 1) {BARRIER}", 1)

    case = case_of("same")
    broken = build({"conv": case}, edit=diverging)
    with pytest.raises(EmulationError, match="part at a barrier"):
        broken.run("conv", random_arrays(case.spec, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("offset", "message"),
    [(1, "address that the size of the access does not divide"), (1 << 20, "outside of an")],
)
def test_a_wrong_address_is_an_error(offset, message):
    def moved(source: str) -> str:
        return source.replace("(x_ptr + ", f"(x_ptr + {offset} + ")

    case = case_of("same")
    broken = build({"conv": case}, edit=moved)
    with pytest.raises(EmulationError, match=message):
        broken.run("conv", random_arrays(case.spec, np.random.default_rng(1)))


@pytest.mark.parametrize(
    ("fields", "target", "reason"),
    [
        ({}, {"kind": "llvm"}, "target is llvm, not cuda"),
        ({}, {"kind": "cuda", "arch": "sm_60"}, "sm_60 has no dp4a"),
        ({"x": "float32", "y": "float32"}, {"kind": "cuda", "arch": "sm_61"}, "x is float32"),
        ({"residual": "float32"}, {"kind": "cuda", "arch": "sm_61"}, "both must be floats"),
    ],
)
def test_refusals(fields, target, reason):
    refusal = CONV2D_DP4A.refuses(Conv2d(**(BASE | fields)), Target(target))
    assert refusal is not None and reason in refusal
