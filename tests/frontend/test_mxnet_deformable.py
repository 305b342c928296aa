"""Deformable convolutions of MXNet: samples as its manual defines them, products in integers."""

import numpy as np
import pytest

from relay_int8.compiler.build import compile_module
from relay_int8.data.dataset import open_data
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import FrontendError
from relay_int8.frontend.mxnet import import_mxnet
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.quantize import quantize
from schedules.targets import native_target
from tests.mxnet_models import MxnetModel, run_lowered
from tests.onnx_models import assert_close
from tests.run_built import run_built


def interpolated(image, y, x, rim):
    """Sample one place of (channels, height, width); beyond the image is zero, or fades to it."""
    height, width = image.shape[1:]
    if rim:
        if not (0 <= y < height and 0 <= x < width):
            return np.zeros(len(image))
        y, x = min(y, height - 1), min(x, width - 1)
    total = np.zeros(len(image))
    for row in (int(np.floor(y)), int(np.floor(y)) + 1):
        for column in (int(np.floor(x)), int(np.floor(x)) + 1):
            if 0 <= row < height and 0 <= column < width:
                total += image[:, row, column] * (1 - abs(y - row)) * (1 - abs(x - column))
    return total


def deformable(x, offset, mask, w, stride, pad, parts, groups):
    """Convolve by the definition, place by place."""
    n, channels, *_ = x.shape
    filters, _, kh, kw = w.shape
    rows, columns = offset.shape[2:]
    taps, width = kh * kw, channels // parts
    samples = np.zeros((n, channels, taps, rows, columns))
    for image, part, k, i, j in np.ndindex(n, parts, taps, rows, columns):
        dy, dx = offset[image, (part * taps + k) * 2 : (part * taps + k) * 2 + 2, i, j]
        y = i * stride[0] - pad[0] + k // kw + float(dy)
        z = j * stride[1] - pad[1] + k % kw + float(dx)
        inside = slice(part * width, (part + 1) * width)
        value = interpolated(x[image, inside], y, z, mask is None)
        scale = 1.0 if mask is None else mask[image, part * taps + k, i, j]
        samples[image, inside, k, i, j] = value * scale
    split = samples.reshape(n, groups, channels // groups * taps, rows, columns)
    kernels = w.reshape(groups, filters // groups, -1)
    return np.einsum("ngkij,gfk->ngfij", split, kernels).reshape(n, filters, rows, columns)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("modulated", [False, True])
def test_equals_the_definition(tmp_path, parts, modulated):
    rng = np.random.default_rng(parts)
    x = rng.normal(size=(2, 4, 6, 5)).astype("float32")
    offset = rng.normal(0, 1.5, (2, 18 * parts, 3, 5)).astype("float32")
    mask = rng.uniform(size=(2, 9 * parts, 3, 5)).astype("float32") if modulated else None
    w = rng.normal(size=(6, 4 // parts, 3, 3)).astype("float32")
    inputs = [x, offset, *([mask] if modulated else [])]
    net = MxnetModel()
    data = [net.variable(f"x{place}") for place in range(len(inputs))]
    y = net.op(
        f"_contrib_{'Modulated' if modulated else ''}DeformableConvolution",
        "y", *data, net.variable("w", w), kernel=(3, 3), stride=(2, 1), pad=(1, 1), num_filter=6,
        num_group=parts, num_deformable_group=parts, no_bias=True,
    )  # fmt: skip
    mod = net.imported(tmp_path, y, **{f"x{i}": value.shape for i, value in enumerate(inputs)})
    expected = deformable(x, offset, mask, w, (2, 1), (1, 1), parts, parts)
    assert_close(run_lowered(mod, *inputs), [expected.astype("float32")])


@pytest.mark.fast
def test_offsets_of_another_size(tmp_path):
    net = MxnetModel()
    data, offset = net.variable("data"), net.variable("offset")
    w = net.variable("w", np.ones((1, 2, 3, 3), "float32"))
    attrs = {"kernel": (3, 3), "num_filter": 1, "no_bias": True}
    y = net.op("_contrib_DeformableConvolution", "y", data, offset, w, **attrs)
    with pytest.raises(FrontendError, match=r"its offset is .*, not \[1, 18, 4, 4\]"):
        net.imported(tmp_path, y, data=(1, 2, 6, 6), offset=(1, 18, 6, 6))


def test_products_are_integers(tmp_path):
    net = MxnetModel()
    x = net.relu(net.conv(net.variable("data"), "conv", (8, 3, 3, 3), pad=(1, 1)), "relu")
    offset = net.conv(x, "offset", (18, 8, 3, 3), bias=True, pad=(1, 1))
    w = net.rng.normal(0, 0.1, (16, 8, 3, 3)).astype("float32")
    y = net.op(
        "_contrib_DeformableConvolution", "deformable", x, offset, net.variable("w", w),
        kernel=(3, 3), pad=(1, 1), num_filter=16, num_deformable_group=1, no_bias=True,
    )  # fmt: skip
    y = net.pool(
        net.relu(net.batch_norm(y, "norm", 16), "act"), "pool", 1, 1, kind="avg", global_pool=True
    )
    path = net.save(tmp_path, net.dense(y, "fc", (5, 16)))
    shapes = {"data": (2, 3, 12, 12)}
    images = np.random.default_rng(0).normal(size=(6, 3, 12, 12)).astype("float32")
    info = TensorInfo(name="data", shape=(-1, 3, 12, 12), dtype="float32")
    mod = import_mxnet(path, inputs=shapes)
    model = quantize(mod, open_data([images], (info,), None))
    assert {layer.name: layer.integer for layer in model.plan.layers} == {
        "relu": True, "offset": True, "deformable/samples": True, "act": True, "pool": True,
        "fc/flatten": True, "fc": True,
    }  # fmt: skip
    found = run_built(compile_module(model.mod, native_target()), {"data": images[:2]})["outputs:0"]
    (wanted,) = run_lowered(mod, images[:2])
    assert snr_db(wanted, found) > 20
