"""One kernel for convolutions of all sizes: the bits of the kernels that know theirs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import tvm

from schedules.any_size import of_any_size
from schedules.cpu.f32 import CONV2D_F32
from schedules.cpu.open_size.conv2d_open import CONV2D_OPEN_F32, opened
from schedules.cpu.windows.depthwise import DEPTHWISE_F32
from schedules.layout import NCHW16C
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Conv2d, from_json, to_json
from schedules.targets import native_target
from schedules.template import Layouts
from tests.schedules.numpy_kernels import random_arrays
from tests.schedules.run_template import WANTED, run_template

TARGET = native_target()
POINTWISE: dict[str, Any] = {"kernel": (1, 1), "padding": (0, 0, 0, 0)}
CASES: dict[str, tuple[dict[str, Any], list[tuple[int, int, int, int]]]] = {
    # what all layers share, and their (channels of x, channels of y, height, width)
    "same": ({}, [(32, 48, 7, 9), (64, 16, 3, 20), (16, 80, 2, 2), (16, 40, 4, 4)]),
    "two_blocks": ({}, [(32, 32, 7, 9), (48, 64, 3, 5)]),
    "pointwise": (POINTWISE, [(48, 24, 5, 5), (16, 56, 1, 17)]),
    "strided": (
        {"kernel": (3, 5), "strides": (2, 2), "dilation": (2, 1), "padding": (1, 2, 0, 1)},
        [(32, 16, 9, 11), (16, 16, 12, 8)],
    ),
    "ragged_residual": (
        {"residual": "float32", "leaky": True},
        [(20, 40, 6, 5), (48, 70, 4, 4)],
    ),
    "slope_of_the_sum": (
        {"residual": "float32", "leaky": True, "sum_first": True},
        [(20, 40, 3, 4), (48, 70, 4, 2)],
    ),
    "few_channels": ({**POINTWISE, "strides": (2, 2)}, [(5, 3, 7, 6), (5, 35, 4, 9)]),
    "depthwise": ({"strides": (2, 2)}, [(32, 32, 7, 9), (16, 16, 6, 6)]),
    "depthwise_ragged": (
        {"kernel": (5, 5), "padding": (2, 2, 2, 2), "leaky": True},
        [(24, 24, 9, 7), (40, 40, 5, 5)],
    ),
    "depthwise_one_channel": (
        {"kernel": (1, 3), "padding": (0, 1, 0, 1)},
        [(1, 1, 1, 16), (1, 1, 1, 64)],
    ),
    "few_positions": ({}, [(32, 32, 1, 1), (32, 64, 3, 1)]),
    "one_position": (POINTWISE, [(20, 32, 1, 1), (72, 64, 1, 1), (16, 96, 1, 3)]),
    "rows_alone": ({"kernel": (3, 1), "padding": (1, 0, 1, 0)}, [(16, 16, 4, 5)]),
}


def _specs(case: str) -> list[Conv2d]:
    shared, sizes = CASES[case]
    base = {"batch": 1, "kernel": (3, 3), "padding": (1, 1, 1, 1), "x": "float32", "y": "float32"}
    names = ("in_channels", "out_channels", "height", "width")
    specs = [Conv2d(**(base | shared | dict(zip(names, size, strict=True)))) for size in sizes]
    if not case.startswith("depthwise"):
        return specs
    return [dataclasses.replace(spec, groups=spec.in_channels) for spec in specs]


@pytest.mark.parametrize("case", CASES)
def test_bits_of_the_kernels_that_know_their_sizes(case):
    specs = _specs(case)
    general = {to_json(opened(spec, TARGET)) for spec in specs}
    assert len(general) == 1
    spec = from_json(general.pop())
    layouts = CONV2D_OPEN_F32.layouts(spec, WANTED)
    kernel = Kernel(template=CONV2D_OPEN_F32, spec=spec, layouts=layouts, target=TARGET)
    built = tvm.compile(kernel.default().mod, target=TARGET)
    template = select(specs[0], TARGET)
    assert template in (CONV2D_F32, DEPTHWISE_F32)
    for spec in specs:
        arrays = random_arrays(spec, np.random.default_rng(1), 1)
        packed = template.pack(spec, {name: arrays[name] for name in spec.params})
        y = tvm.runtime.tensor(np.full(NCHW16C.physical_shape(spec.shape("y")), 77, np.float32))
        tensors = [NCHW16C.pack(arrays[name]) for name in spec.tensors]
        last = np.array([(spec.out_channels - 1) % 16 + 1], np.int32)
        arguments = [*tensors, *(packed[name] for name in spec.params), last]
        built["main"](*map(tvm.runtime.tensor, arguments), y)
        found, rest = y.numpy(), spec.out_channels % 16
        assert not rest or not found[:, -1, ..., rest:].any()
        expected = run_template(template, spec, TARGET, arrays)
        np.testing.assert_array_equal(NCHW16C.unpack(found, spec.shape("y")), expected)


@pytest.mark.parametrize(
    "change",
    [{"batch": 2}, {"groups": 2}],
    ids=lambda change: str(change),
)
def test_what_has_no_kernel_for_all_sizes_keeps_its_own(change):
    spec = dataclasses.replace(_specs("same")[0], **change)
    wanted = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    assert of_any_size(CONV2D_F32, spec, wanted, TARGET) == (CONV2D_F32, spec, wanted)


def test_integers_keep_their_own():
    spec = dataclasses.replace(_specs("same")[0], x="uint8", y="uint8")
    template = select(spec, TARGET)
    assert of_any_size(template, spec, WANTED, TARGET)[0] is template
