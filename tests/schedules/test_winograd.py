"""Winograd convolutions: equal to NumPy at the extremes of their types; where they are chosen."""

import itertools
from typing import Any

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.bodies import toom_cook
from schedules.cpu.winograd import winograd_rule, winograd_template
from schedules.cpu.winograd.winograd_rule import Strips, Tiling, default_strips, sizes
from schedules.selection import select
from schedules.spec import Conv2d
from schedules.targets import compact
from schedules.x86.vnni import CONV2D_VNNI
from schedules.x86.winograd import WINOGRAD_AVX2, WINOGRAD_AVXVNNI, WINOGRAD_VNNI
from tests.schedules.convolution_checks import assert_equal, assert_same_epilogue
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import run_template

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
ALDERLAKE = Target({"kind": "llvm", "mcpu": "alderlake", "num-cores": 2})
BASE: dict[str, Any] = {
    "batch": 1,
    "in_channels": 32,
    "height": 12,
    "width": 12,
    "out_channels": 32,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
    "x": "uint8",
    "y": "uint8",
}
CASES: dict[str, dict[str, Any]] = {
    "whole_tiles": {"y": "int8"},
    "cut_tiles": {"height": 7, "width": 9},
    "one_pixel": {"height": 1, "width": 1},
    "padding_of_its_own": {"padding": (0, 2, 1, 0), "width": 10},
    "far_padding": {"padding": (3, 3, 3, 3), "height": 5, "width": 5},
    "ragged_channels": {"in_channels": 20, "out_channels": 40},
    "batch": {"batch": 2, "in_channels": 16, "out_channels": 16},
    "residual_leaky": {"residual": "int8", "leaky": True, "y": "int8", "width": 6},
    "leaky_sum": {"residual": "uint8", "leaky": True, "sum_first": True, "width": 6},
    "dilated": {"dilation": (2, 3), "padding": (2, 3, 2, 3), "height": 13, "width": 26},
    "parts_of_a_pixel": {"dilation": (4, 8), "padding": (4, 5, 3, 8), "height": 9, "width": 9},
    "float": {"y": "float32", "leaky": True, "out_channels": 40, "height": 6},
}


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(winograd_template, "gains", lambda *_, **__: True)


def spec_of(case: dict[str, Any], **types: Any) -> Conv2d:
    return Conv2d(**(BASE | case | types))


@pytest.mark.fast
def test_four_outputs_follow_from_six_products():
    rng = np.random.default_rng(0)
    d, w = rng.integers(-99, 99, 6), rng.integers(-99, 99, 3)
    matrices = (np.array(m) for m in (toom_cook.INPUT, toom_cook.WEIGHTS, toom_cook.OUTPUT))
    pixels, weights, outputs = matrices
    y = [int(np.dot(w, d[i : i + 3])) for i in range(toom_cook.OUTPUTS)]
    assert (outputs @ ((weights @ w) * (pixels @ d))).tolist() == [toom_cook.SCALE * v for v in y]


@pytest.mark.fast
def test_everything_fits_int16_and_the_odd_factor_has_an_inverse():
    pixels, weights = np.array(toom_cook.INPUT), np.array(toom_cook.WEIGHTS)
    # The largest value is that of bytes at 255 where an entry of the outer product is positive.
    entries = np.einsum("ia,jb->ijab", pixels, pixels)
    largest = 255 * np.where(entries > 0, entries, 0).sum(axis=(2, 3))
    smallest = 255 * np.where(entries < 0, entries, 0).sum(axis=(2, 3))
    assert largest.max() == 24990 and smallest.min() >= -24990
    signed = 128 * np.abs(entries).sum(axis=(2, 3))
    assert signed.max() <= np.iinfo(np.int16).max
    points = 128 * np.abs(np.einsum("ia,jb->ijab", weights, weights)).sum(axis=(2, 3))
    assert points.max() == 28800
    assert toom_cook.ODD_INVERSE * (toom_cook.SCALE**2 >> toom_cook.SHIFT) % (1 << 32) == 1


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("case", CASES)
def test_vnni(case):
    assert_equal(WINOGRAD_VNNI, spec_of(CASES[case]), VNNI)


@pytest.mark.isa("avx512_vnni")
def test_strips_of_any_size():
    for seed in (1, 2, 3):
        assert_equal(WINOGRAD_VNNI, spec_of({"width": 20}), VNNI, seed)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("epilogue", [{"activation": "swish"}, {"requantize": "tflite"}])
def test_epilogues_are_those_of_other_convolutions(epilogue):
    assert_same_epilogue(
        WINOGRAD_VNNI, CONV2D_VNNI, spec_of({"height": 4, "out_channels": 16}), VNNI, epilogue
    )


@pytest.mark.isa("avx512_vnni")
def test_symbolic_batch():
    spec = spec_of({"residual": "uint8", "height": 6}, batch=tirx.Var("n", "int64"))
    for batch in (1, 3):
        assert_equal(WINOGRAD_VNNI, spec, VNNI, batch=batch)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize(
    ("case", "x"),
    [
        *[("whole_tiles", "uint8"), ("ragged_channels", "int8")],
        *[("ragged_channels", "uint8"), ("far_padding", "int8"), ("dilated", "uint8")],
    ],
)
def test_avx2(case, x):
    assert_equal(WINOGRAD_AVX2, spec_of(CASES[case], x=x), HASWELL)


@pytest.mark.isa("avx_vnni")
def test_avxvnni():
    assert_equal(WINOGRAD_AVXVNNI, spec_of(CASES["ragged_channels"]), ALDERLAKE)


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize(("pixel", "weight"), [(255, -128), (255, 127)])
def test_sums_that_wrap_around(pixel, weight):
    """At the points sums of 512 channels leave 32 bits, many times; outputs do not."""
    spec = spec_of(
        {"in_channels": 512, "out_channels": 16, "height": 8, "width": 8, "y": "float32"}
    )
    arrays = random_arrays(spec, np.random.default_rng(2), 1)
    arrays["x"][...] = pixel
    arrays["x"][0, :, 3:5, 2:6] = 0
    arrays["w"][...] = weight
    arrays["w"][0] = -weight - 1
    y = run_template(WINOGRAD_VNNI, spec, VNNI, arrays)
    np.testing.assert_array_equal(y, reference(spec, arrays))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"strides": (2, 2)}, "want 3 x 3 pixels, each window"),
        ({"kernel": (1, 3), "padding": (0, 1, 0, 1)}, "want 3 x 3 pixels, each window"),
        ({"groups": 2}, "in one group"),
        ({"in_channels": 1888}, "sums of 1888 channels may leave 30 bits"),
        ({"x": "float32", "y": "float32"}, "x is float32, not uint8"),
    ],
)
def test_refusals(change, reason):
    assert reason in WINOGRAD_VNNI.refuses(spec_of(change), VNNI)


@pytest.mark.fast
def test_a_cpu_without_the_instruction_is_refused():
    assert "lacks avx512vnni" in WINOGRAD_VNNI.refuses(spec_of({}), HASWELL)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("size", "channels", "template"),
    [
        (56, 64, WINOGRAD_VNNI),
        (28, 512, WINOGRAD_VNNI),
        (14, 256, CONV2D_VNNI),
        (7, 512, CONV2D_VNNI),
    ],
)
def test_large_images_take_it(size, channels, template, monkeypatch):
    monkeypatch.undo()
    shape = {"height": size, "width": size, "in_channels": channels, "out_channels": channels}
    assert select(spec_of(shape), VNNI) == template


@pytest.mark.fast
def test_compact_weights_are_those_of_direct_products(monkeypatch):
    monkeypatch.undo()
    shape = {"height": 56, "width": 56, "in_channels": 64, "out_channels": 64}
    assert select(spec_of(shape), compact(VNNI)) == CONV2D_VNNI


@pytest.mark.fast
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize(("size", "channels"), list(itertools.product((28, 56, 224), (64, 512))))
def test_strips_are_shared_evenly(size, channels, cores):
    shape = {"height": size, "width": size, "in_channels": channels, "out_channels": channels}
    tiling = Tiling.of(spec_of(shape))
    strips = default_strips(tiling, cores)
    assert strips.size in sizes(tiling) and 5 <= strips.rows <= 7
    count = tiling.strips(strips.size)
    assert -(-count // cores) * cores <= 1.2 * count
    assert winograd_rule.cost(tiling, strips, cores) <= winograd_rule.cost(
        tiling, Strips(7, 7), cores
    )
