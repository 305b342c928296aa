"""Means of channels: the reference's bits, whatever the layout and the size of the image."""

import numpy as np
import pytest
import tvm

from schedules.cpu.open_size.channel_means import CHANNEL_MEANS_CPU
from schedules.layout import NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.space import Kernel
from schedules.spec import ChannelMeans, from_json, to_json
from schedules.targets import native_target
from schedules.template import Layouts
from tests.compiled import compiled

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=lambda layout: layout.name)
def test_one_kernel_serves_every_size(layout):
    specs = [ChannelMeans(dims=dims) for dims in ((1, 32, 30, 17), (1, 20, 5, 1), (1, 3, 1, 1))]
    asked = Layouts(inputs=(layout,), output=ROW)
    general = [CHANNEL_MEANS_CPU.general(spec, asked) for spec in specs]
    assert len({to_json(spec) for spec, _ in general}) == 1
    spec, layouts = from_json(to_json(general[0][0])), general[0][1]
    kernel = Kernel(template=CHANNEL_MEANS_CPU, spec=spec, layouts=layouts, target=native_target())
    built = compiled(kernel.default().mod, native_target())
    for spec in specs:
        x = np.random.default_rng(0).normal(size=spec.dims).astype(np.float32)
        params = {"m": np.full(1, 1 / (spec.dims[2] * spec.dims[3]), np.float32)}
        y = tvm.runtime.tensor(np.full(spec.shape("y"), 77, np.float32))
        arrays = [layout.pack(x), params["m"]]
        built["main"](*map(tvm.runtime.tensor, arrays), y)
        np.testing.assert_array_equal(y.numpy(), reference(spec, {"x": x}, params))


def test_images_of_channels_last_are_repacked():
    spec = ChannelMeans(dims=(1, 3, 5, 4))
    asked = Layouts(inputs=(NHWC,), output=ROW)
    assert CHANNEL_MEANS_CPU.layouts(spec, asked).inputs == (ROW,)


def test_reference():
    x = np.arange(8, dtype=np.float32).reshape(1, 2, 2, 2)
    y = reference(ChannelMeans(dims=x.shape), {"x": x}, {"m": np.float32([0.25])})
    np.testing.assert_array_equal(y, np.float32([1.5, 5.5]))
