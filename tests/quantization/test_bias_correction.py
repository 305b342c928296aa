"""The mean error of quantized weights: worked numbers, padding, and what it brings a network."""

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.calibration import CalibrationTable, open_data
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.groups import find_groups
from relay_int8.notices import Notice
from relay_int8.numerics.bias_correction import corrected_bias, tap_shares
from relay_int8.numerics.channel_means import LAST_AXIS
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from schedules.targets import native_target
from tests.reference import run
from tests.small_networks import NetworkWriter

F = np.float32
ONE_TAP = np.ones((1, 1))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("w", "mean", "b", "expected"),
    [
        # scale 0.01: 0.004 becomes 0, 0.006 becomes 0.01
        ([[1.27, 0.004]], [9.0, 50.0], [1.0], [1.2]),
        ([[1.27, 0.006]], [9.0, 50.0], [1.0], [0.8]),
        ([[1.27, 0.004], [-12.7, 0.04]], [0.0, -10.0], [0.0, 3.0], [-0.04, 2.6]),
        ([[1.27, -0.03]], [5.0, 5.0], [0.5], [0.5]),  # both are multiples of the scale
        ([[0.0, 0.0]], [5.0, 5.0], [0.5], [0.5]),
    ],
)
def test_worked_numbers(w, mean, b, expected):
    w = np.array(w, F)[:, :, None, None]
    found = corrected_bias(w, F(b), F(1), F(mean), ONE_TAP, 1)
    assert found.dtype == F
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.fast
def test_groups_read_their_own_channels():
    w = np.array([[1.27, 0.004], [1.27, 0.004]], F)[:, :, None, None]
    found = corrected_bias(w, F([0, 0]), F(1), F([0, 10, 0, 100]), ONE_TAP, 2)
    np.testing.assert_allclose(found, [-0.04 * -1, 0.4], rtol=1e-5)


@pytest.mark.fast
def test_a_tap_in_the_padding_adds_nothing():
    w = np.array([[[[0.004, 1.27]]]], F)
    full = corrected_bias(w, F([0]), F(1), F([100]), np.array([[1.0, 1.0]]), 1)
    half = corrected_bias(w, F([0]), F(1), F([100]), np.array([[0.5, 1.0]]), 1)
    np.testing.assert_allclose([full[0], half[0]], [0.4, 0.2], rtol=1e-5)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("size", "out", "kernel", "strides", "dilation", "padding"),
    [
        ((5, 7), (5, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
        ((6, 4), (3, 2), (3, 3), (2, 2), (1, 1), (0, 1)),
        ((9, 9), (9, 5), (3, 5), (1, 2), (2, 1), (2, 2)),
        ((4, 4), (1, 1), (4, 4), (1, 1), (1, 1), (0, 0)),
    ],
)
def test_tap_shares_count_positions(size, out, kernel, strides, dilation, padding):
    found = tap_shares(size, out, kernel, strides=strides, dilation=dilation, padding=padding)
    for i, j in np.ndindex(kernel):
        rows = [y * strides[0] - padding[0] + i * dilation[0] for y in range(out[0])]
        columns = [x * strides[1] - padding[1] + j * dilation[1] for x in range(out[1])]
        inside = sum(0 <= r < size[0] and 0 <= c < size[1] for r in rows for c in columns)
        assert found[i, j] == pytest.approx(inside / (out[0] * out[1]), abs=1e-12)


def network(bias):
    """Return x -> relu -> depthwise -> 1x1 -> dense, some layers without bias if so asked."""
    net = NetworkWriter((1, 8, 9, 9))
    a = net.relu("a", net.x)
    if bias:
        d = net.conv("d", a, 8, 3, padding=1, groups=8)
    else:
        w = net.constant(8, 1, 3, 3, scale=0.3)
        d = net.emit("d", relax.op.nn.conv2d(a, w, padding=1, groups=8))
    e = net.relu("e", net.conv("e/bias", net.relu("d/relu", d), 12, 1))
    pool = net.emit("pool", relax.op.nn.avg_pool2d(e, pool_size=(9, 9)))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 12)))
    return net.module(net.emit("logits", relax.op.matmul(flat, net.constant(12, 6))))


def pictures(count=40):
    return np.random.default_rng(3).gamma(2.0, size=(count, 8, 9, 9)).astype(F)


def dataset(x):
    return open_data([x], [TensorInfo(name="x", shape=(-1, 8, 9, 9), dtype="float32")])


def outputs(mod, x):
    main = virtual_machine(compile_module(mod, native_target()))["main"]
    return np.concatenate([main(tvm.runtime.tensor(image[None])).numpy() for image in x])


@pytest.mark.parametrize("bias", [True, False])
def test_the_mean_error_of_a_network_shrinks(bias):
    mod, x = network(bias), pictures()
    wanted = outputs(mod, x)
    table = quantize(mod, dataset(x), QuantConfig(method="max")).table
    found = {}
    for correction in (True, False):
        quantized = quantize(mod, table, QuantConfig(bias_correction=correction))
        assert all(layer.integer for layer in quantized.plan.layers if layer.macs)
        names = [str(var.name) for var in dataflow.results(quantized.mod["main"])]
        assert names == ["logits"]
        logits = outputs(quantized.mod, x)
        np.testing.assert_array_equal(logits[:1], run(quantized.mod, {"x": x[:1]})["logits"])
        found[correction] = np.abs((logits - wanted).mean(axis=0)).max()
    assert found[True] < 0.5 * found[False]


def test_a_saved_table_gives_the_same_model(tmp_path):
    mod, x = network(True), pictures(25)
    made = quantize(mod, dataset(x), QuantConfig(method="max"))
    assert set(made.table.means) == {"a", "d/relu", "flat"}
    made.table.save(tmp_path / "table.json")
    table = CalibrationTable.load(tmp_path / "table.json")
    assert quantize(mod, table).digest == made.digest
    backwards = quantize(mod, dataset(x[::-1]), QuantConfig(method="max"))
    assert backwards.table.to_json() == made.table.to_json()
    plain = quantize(mod, table, QuantConfig(bias_correction=False))
    assert plain.digest != made.digest

    foreign = dataclasses.replace(table, means={})
    assert quantize(mod, foreign, QuantConfig(bias_correction=False)).digest == plain.digest
    with pytest.warns(Notice, match="no means of channels"):
        assert quantize(mod, foreign).digest == plain.digest
    some = dataclasses.replace(table, means={"flat": table.means["flat"]})
    with pytest.raises(CalibrationError, match="the means of the 8 channels of 'a'"):
        quantize(mod, some)
    short = dataclasses.replace(table, means={**table.means, "flat": np.zeros(5, F)})
    with pytest.raises(CalibrationError, match="the means of the 12 channels of 'flat'"):
        quantize(mod, short)


@pytest.mark.parametrize("dims", [(4, 6), (3, 4, 6), (1, 3, 4, 6), (1, 2, 3, 4, 6)])
def test_products_of_any_rank(dims):
    """A product reduces the last axis, of four axes too, though an image has its channels before."""
    net = NetworkWriter((1, *dims[1:]))
    w = net.constant(6, 5, scale=0.4)
    h = net.emit("h", relax.op.matmul(net.x, w))
    mod = net.module(net.emit("y", relax.op.matmul(net.relu("r", h), net.constant(5, 3))))
    x = np.random.default_rng(3).gamma(2.0, size=(30, *dims[1:])).astype(F)
    data = open_data([x], [TensorInfo(name="x", shape=(-1, *dims[1:]), dtype="float32")])
    quantized = quantize(mod, data, QuantConfig(method="max"))
    assert all(layer.integer for layer in quantized.plan.layers if layer.macs)
    mean = x.astype(np.float64).reshape(-1, 6).mean(axis=0)
    values = w.value.numpy().astype(np.float64)
    scale = np.abs(values).max(axis=0) / 127
    error = np.rint(values / scale) * scale - values
    bias = next(
        group.bias
        for group in find_groups(quantized.mod["main"])
        if group.kind == "dense" and group.weight.values.shape == (6, 5)
    )
    np.testing.assert_allclose(bias, -(mean @ error), rtol=1e-3, atol=1e-6)


def test_a_tensor_that_convolutions_and_products_read():
    net = NetworkWriter((1, 6, 4, 6))
    a = net.relu("a", net.x)
    c = net.emit("c", relax.op.nn.conv2d(a, net.constant(3, 6, 1, 1)))
    d = net.emit("d", relax.op.matmul(a, net.constant(6, 3)))
    x = np.random.default_rng(3).gamma(2.0, size=(30, 6, 4, 6)).astype(F)
    data = open_data([x], [TensorInfo(name="x", shape=(-1, 6, 4, 6), dtype="float32")])
    means = quantize(net.module(c, d), data, QuantConfig(method="max")).table.means
    assert set(means) == {"a", f"a{LAST_AXIS}"}
    np.testing.assert_allclose(means["a"], x.mean(axis=(0, 2, 3)), rtol=1e-4)
    np.testing.assert_allclose(means[f"a{LAST_AXIS}"], x.mean(axis=(0, 1, 2)), rtol=1e-4)
