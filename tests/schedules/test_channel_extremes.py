"""Least and greatest values of channels: the reference's, whatever the layout and the size."""

import numpy as np
import pytest
import tvm

from schedules.cpu.open_size.channel_extremes import CHANNEL_EXTREMES_CPU
from schedules.layout import NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.space import Kernel
from schedules.spec import ChannelExtremes, from_json, to_json
from schedules.targets import native_target
from schedules.template import Layouts
from tests.compiled import compiled

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=lambda layout: layout.name)
def test_one_kernel_serves_every_size(layout):
    specs = [ChannelExtremes(dims=dims) for dims in ((1, 32, 30, 17), (1, 20, 5, 1), (1, 3, 1, 1))]
    asked = Layouts(inputs=(layout,), output=ROW)
    general = [CHANNEL_EXTREMES_CPU.general(spec, asked) for spec in specs]
    assert len({to_json(spec) for spec, _ in general}) == 1
    spec, layouts = from_json(to_json(general[0][0])), general[0][1]
    target = native_target()
    kernel = Kernel(template=CHANNEL_EXTREMES_CPU, spec=spec, layouts=layouts, target=target)
    built = compiled(kernel.default().mod, target)
    for spec in specs:
        x = np.random.default_rng(0).normal(3, 1, spec.dims).astype(np.float32)
        y = tvm.runtime.tensor(np.full(spec.shape("y"), 77, np.float32))
        built["main"](tvm.runtime.tensor(layout.pack(x)), y)
        np.testing.assert_array_equal(y.numpy(), reference(spec, {"x": x}, {}))


def test_images_of_channels_last_are_repacked():
    spec = ChannelExtremes(dims=(1, 3, 5, 4))
    asked = Layouts(inputs=(NHWC,), output=ROW)
    assert CHANNEL_EXTREMES_CPU.layouts(spec, asked).inputs == (ROW,)


def test_reference():
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    y = reference(ChannelExtremes(dims=x.shape), {"x": x}, {})
    np.testing.assert_array_equal(y, np.float32([[0, 4], [3, 7]]))
