"""Norms and softmax: near the real ones, and the same bits everywhere."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx

from schedules.cpu.norms import channel_norms
from schedules.cpu.norms.rows import NORMALIZE_CPU
from schedules.layout import NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Normalize, Quantize, Softmax
from schedules.targets import named_target
from schedules.template import Arrays, Layouts, ScheduleError
from tests.oracle import rows
from tests.schedules.any_layout_runs import check, f32, i32, random_values

SIZES = {1: "float32", 7: "int8", 16: "uint8", 49: "float32", 197: "int8", 768: "uint8"}
LAYERS = {
    f"{'layer' if size % 2 else 'rms'}-{size}": Normalize(
        dims=(2, 3, size), axes=1, centred=bool(size % 2), y=y
    )
    for size, y in SIZES.items()
}
GROUPS = {
    "two axes": Normalize(dims=(3, 5, 7), axes=2, y="int8"),
    "groups": Normalize(dims=(2, 6, 5, 7), groups=3, y="int8"),
    "instances": Normalize(dims=(2, 6, 4, 8), groups=6, y="float32"),
    "of a matrix": Normalize(dims=(3, 8), groups=2, y="uint8"),
}
SHARES = {f"softmax-{size}": Softmax(dims=(2, 3, size), y=y) for size, y in SIZES.items()}
COLUMNS = {
    "columns": Softmax(dims=(2, 16, 84), axis=1, y="uint8"),
    "few columns": Softmax(dims=(2, 3, 37, 5), axis=2, y="int8"),
    "the first axis": Softmax(dims=(3, 3, 33), axis=0, y="float32"),
    "columns of one": Softmax(dims=(2, 3, 1, 20), axis=2, y="float32"),
}
SPECS = {**LAYERS, **GROUPS, **SHARES, **COLUMNS}
TARGETS = [
    pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
    "x86",
]


def params_of(spec: Normalize | Softmax, seed: int = 1) -> Arrays:
    """Return constants; where y is an integer, some of it saturates."""
    rng = np.random.default_rng(seed)
    params = {}
    if isinstance(spec, Normalize):
        gamma, beta = rng.normal(1, 0.3, (2, spec.channels)).astype(np.float32)
        params = {"gamma": gamma, "beta": beta, "epsilon": f32(1e-5), "count": f32(spec.size)}
    if spec.y == "float32":
        return params
    is_norm, low = isinstance(spec, Normalize), np.iinfo(spec.y).min
    z = {"int8": -5, "uint8": 100 if is_norm else 0}[spec.y]
    bounds = f32(low - z, low + 255 - z)
    return {**params, "s": f32(0.017 if is_norm else 0.0031), "z": i32(z), "clamp": bounds}


def values(spec: Normalize | Softmax) -> np.ndarray:
    """Return rows near zero and far, among them one of equal values."""
    x = random_values(spec.dims, "float32") * np.float32(3) + np.float32(0.5)
    x[0, 1] = np.float32(1.7)
    if isinstance(spec, Softmax):
        x[1, 0, 0], x[1, 1], x[1, 2, -1] = -np.inf, -np.inf, np.inf
    return x


def real(spec: Normalize | Softmax, x: np.ndarray, params: Arrays) -> np.ndarray:
    """Return the float64 result."""
    if isinstance(spec, Softmax):
        return rows.softmax(x.astype(np.float64), axis=spec.axis)
    flat = x.astype(np.float64).reshape(-1, spec.size)
    centred = flat - flat.mean(1, keepdims=True) if spec.centred else flat
    unit = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    shape = (-1, *(1,) * (x.ndim - 2)) if spec.groups else x.shape[x.ndim - spec.axes :]
    gamma, beta = (params[name].astype(np.float64).reshape(shape) for name in ("gamma", "beta"))
    return unit.reshape(x.shape) * gamma + beta


@pytest.mark.fast
@pytest.mark.parametrize("name", SPECS)
def test_reference_is_near_the_real_function(name):
    spec = dataclasses.replace(SPECS[name], y="float32")
    x, params = random_values(spec.dims, "float32"), params_of(spec)
    found = reference(spec, {"x": x}, params)
    np.testing.assert_allclose(found, real(spec, x, params), rtol=2e-5, atol=3e-6)


@pytest.mark.fast
@pytest.mark.parametrize("name", SPECS)
def test_reference_is_the_oracle(name):
    spec = dataclasses.replace(SPECS[name], y="float32")
    x, params = values(spec), params_of(spec)
    found = reference(spec, {"x": x}, params)
    if isinstance(spec, Softmax):
        expected = rows.softmax(x, axis=spec.axis)
    elif spec.groups:
        at = {"num_groups": spec.groups, "channel_axis": 1, "epsilon": 1e-5}
        expected = rows.group_norm(x, params["gamma"], params["beta"], **at)
    else:
        shape = x.shape[x.ndim - spec.axes :]
        gamma, beta = (params[key].reshape(shape) for key in ("gamma", "beta"))
        axes = tuple(range(-spec.axes, 0))
        at = {"axes": axes, "epsilon": 1e-5, "scale": True, "center": True}
        if not spec.centred:
            params["beta"][:] = 0
            found = reference(spec, {"x": x}, params)
            expected = rows.rms_norm(x, gamma, axes=axes, epsilon=1e-5)
        else:
            expected = rows.layer_norm(x, gamma, beta, **at)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.fast
@pytest.mark.parametrize("name", [name for name in SPECS if SPECS[name].y != "float32"])
def test_integers_are_those_of_a_quantize_behind(name):
    spec = SPECS[name]
    x, params = values(spec), params_of(spec)
    t = reference(dataclasses.replace(spec, y="float32"), {"x": x}, params)
    expected = reference(Quantize(dims=spec.dims, y=spec.y), {"x": t}, params)
    np.testing.assert_array_equal(reference(spec, {"x": x}, params), expected)


@pytest.mark.fast
def test_rows_without_numbers_have_shares():
    infinite = np.float32(np.inf)
    x = np.array([[-infinite] * 3, [infinite, 1, infinite], [-infinite, 0, 0]], np.float32)
    found = reference(Softmax(dims=x.shape, y="float32"), {"x": x}, {})
    np.testing.assert_array_equal(found, f32(0, 0, 0, 0.5, 0, 0.5, 0, 0.5, 0.5).reshape(3, 3))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SPECS)
def test_equals_reference(target, name):
    spec = SPECS[name]
    check(spec, params_of(spec), target=named_target(target), tensors={"x": values(spec)})


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("y", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("size", [(5, 7), (3, 3), (8, 8), (1, 1)], ids=str)
def test_channels_in_blocks(size, y, target):
    spec = Normalize(dims=(2, 48, *size), groups=48, y=y)
    assert channel_norms.computes(spec)
    tensors = {"x": values(spec)}
    check(spec, params_of(spec), NCHW16C, target=named_target(target), tensors=tensors)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("y", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("size", [(5, 7), (3, 1), (8, 8)], ids=str)
def test_channels_of_pixels(size, y, target):
    n = tirx.Var("n", "int64")
    for dims, centred in (((2, 48, *size), True), ((n, 80, *size), False)):
        spec = Normalize(dims=dims, pixels=True, centred=centred, y=y)
        check(spec, params_of(spec), NCHW16C, target=named_target(target))


@pytest.mark.fast
def test_channels_of_pixels_are_rows_of_another_order():
    spec = Normalize(dims=(2, 48, 5, 7), pixels=True, y="int8")
    x, params = random_values(spec.dims, "float32"), params_of(spec)
    rows_ = Normalize(dims=(2, 5, 7, 48), axes=1, y="int8")
    found = reference(rows_, {"x": x.transpose(0, 2, 3, 1)}, params).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(reference(spec, {"x": x}, params), found)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("dims", "how", "layout"),
    [
        ((2, 32, 5, 7), {"groups": 32}, NCHW16C),
        ((2, 24, 5, 7), {"groups": 24}, ROW),  # the last block is cut
        ((2, 32, 5, 7), {"groups": 2}, ROW),
        ((2, 32, 5, 7), {"axes": 1}, ROW),
        ((2, 32, 35), {"groups": 32}, ROW),
    ],
)
def test_only_whole_blocks_of_channels_stay_in_blocks(dims, how, layout):
    spec = Normalize(dims=dims, y="float32", **how)
    for wanted in (NCHW16C, ROW):
        wish = Layouts(inputs=(NCHW16C,), output=wanted)
        assert NORMALIZE_CPU.layouts(spec, wish) == Layouts(inputs=(layout,), output=layout)
    rows_in = Layouts(inputs=(ROW,), output=NCHW16C)
    assert NORMALIZE_CPU.layouts(spec, rows_in) == Layouts(inputs=(ROW,), output=ROW)


@pytest.mark.parametrize("target", TARGETS)
def test_subnormal_numbers(target):
    """A mean that is rounded there shows whether its division joins the difference."""
    spec = Normalize(dims=(4, 5, 16), axes=1, y="float32")
    x = values(spec) * np.float32(1e-43)
    params = params_of(spec) | {"beta": np.zeros(16, np.float32)}
    y = check(spec, params, target=named_target(target), tensors={"x": x})
    assert np.abs(y[y != 0]).max() < 1e-38 and (y != 0).mean() > 0.5


@pytest.mark.parametrize(
    "spec",
    [
        Normalize(dims=(tirx.Var("n", "int64"), 3, 20), axes=1, y="int8"),
        Normalize(dims=(tirx.Var("n", "int64"), 6, 5, 3), groups=2, y="float32"),
        Softmax(dims=(tirx.Var("n", "int64"), 3, 20), y="uint8"),
        Softmax(dims=(tirx.Var("n", "int64"), 5, 70), axis=1, y="int8"),
    ],
)
def test_any_batch(spec):
    check(spec, params_of(spec))


def test_any_batch_of_channels_in_blocks():
    spec = Normalize(dims=(tirx.Var("n", "int64"), 32, 20, 30), groups=32, y="uint8")
    check(spec, params_of(spec), NCHW16C)


def test_many_rows_are_shared_among_threads():
    for spec in (
        Normalize(dims=(1, 90, 200), axes=1, y="int8"),
        Softmax(dims=(1, 10, 1800), y="uint8"),
        Softmax(dims=(1, 10, 1800), axis=1, y="uint8"),
    ):
        check(spec, params_of(spec), searched=True)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"dims": (2, 3)}, "give trailing axes, or groups of channels, not both"),
        ({"dims": (2, 3), "axes": 1, "groups": 3}, "give trailing axes, or groups"),
        ({"dims": (2, 3), "axes": 3}, "give trailing axes, or groups"),
        ({"dims": (2, 3), "groups": 2}, "axis 1 must be a multiple of them"),
        ({"dims": (2, 16, 3, 3), "pixels": True, "axes": 1}, "give trailing axes, or groups"),
        ({"dims": (2, 16, 9), "pixels": True}, "give an image, four axes"),
    ],
)
def test_refused_norms(fields, reason):
    with pytest.raises(ScheduleError, match=reason):
        Normalize(**fields, y="float32")


@pytest.mark.fast
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (Softmax(dims=(3, tirx.Var("n", "int64")), y="float32"), "axis 1 of x is symbolic"),
        (Softmax(dims=(tirx.Var("n", "int64"),), y="float32"), "axis 0 of x is symbolic"),
        (Softmax(dims=(tirx.Var("n", "int64"), 3), axis=0, y="int8"), "axis 0 of x is symbolic"),
        (Softmax(dims=(3, 0), y="float32"), "a row has no element"),
    ],
)
def test_refused_rows(spec, reason):
    for target in ("x86", "sm_80"):
        with pytest.raises(ScheduleError, match=reason):
            select(spec, named_target(target))


@pytest.mark.fast
def test_pixels_are_rows_on_cpus_where_channels_fill_blocks():
    cut = Normalize(dims=(1, 24, 5, 7), pixels=True, y="int8")
    with pytest.raises(ScheduleError, match="24 channels, which fill no whole blocks"):
        select(cut, named_target("x86"))
    whole = dataclasses.replace(cut, dims=(1, 32, 5, 7))
    with pytest.raises(ScheduleError, match="its rows are the channels of pixels"):
        select(whole, named_target("sm_80"))
