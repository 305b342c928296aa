"""Elementwise kernels: equal to the reference in every layout, on every x86 target."""

import re

import numpy as np
import pytest
import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.layout_flexible import BINARY_CPU, DEQUANTIZE_CPU, QUANTIZE_CPU
from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Binary, Bound, Dequantize, Quantize, Rescale, Table
from schedules.targets import named_target
from schedules.template import Layouts, ScheduleError
from tests.schedules.any_layout_runs import (
    build,
    check,
    f32,
    i32,
    random_tensors,
    random_values,
    run,
)

IMAGES = [ROW, NHWC, NCHW4C, NCHW16C]
TARGETS = [
    pytest.param(named_target("x86"), id="plain"),
    pytest.param(named_target("x86-avx2"), id="avx2", marks=pytest.mark.isa("avx2")),
    pytest.param(named_target("native"), id="native"),
]
by_name = {"ids": lambda layout: layout.name}
DIFFERENCE = {"m_a": f32(0.37), "m_b": f32(-0.61), "z": i32(120, -7, 128), "clamp": f32(-99, 120)}
SUM = {"m_a": f32(0.37), "m_b": f32(0.61), "z": i32(120, -7, 9), "clamp": f32(-9, 246)}
QUOTIENT = {"m": f32(3.7), "z": i32(120, -7, 100), "clamp": f32(-100, 155)}
PRODUCT = {"m": f32(0.0173), "z": i32(120, -7, -28), "clamp": f32(-100, 155)}


def binary(operator: str, shape, b_shape=None, types=("uint8", "int8", "uint8")) -> Binary:
    a, b, y = types
    return Binary(operator=operator, a_shape=shape, b_shape=b_shape or shape, a=a, b=b, y=y)


@pytest.mark.fast
@pytest.mark.parametrize("target", TARGETS)
def test_every_target(target: Target):
    shape = (2, 20, 5, 7)
    check(binary("add", shape), SUM, NCHW16C, target=target)
    check(binary("mul", shape, types=("uint8", "int8", "int8")), PRODUCT, NCHW16C, target=target)
    check(binary("add", shape), DIFFERENCE, NCHW16C, target=target)
    for operator in ("max", "min"):
        check(binary(operator, shape), DIFFERENCE, NCHW16C, target=target)
    check(binary("div", shape), QUOTIENT, NCHW16C, target=target)
    check(binary("rdiv", shape, (2, 20, 1, 1)), QUOTIENT, NCHW16C, target=target)
    params = {"s": f32(0.031), "z": i32(-3), "clamp": f32(-125, 130)}
    check(Quantize(dims=shape, y="int8"), params, ROW, NCHW16C, target=target)
    check(Dequantize(dims=shape, x="int8"), params, NCHW16C, ROW, target=target)
    params = {"m": f32(0.8), "m_neg": f32(*np.linspace(-0.2, 0.5, 20)), "z": i32(-3, 5)}
    spec = Rescale(dims=shape, x="int8", y="uint8", leaky=True)
    check(spec, {**params, "clamp": f32(-5, 250)}, NCHW16C, target=target)


@pytest.mark.parametrize("layout", IMAGES, **by_name)
@pytest.mark.parametrize("b_shape", [(2, 20, 1, 1), (2, 1, 5, 7), (1, 20, 1, 7)])
def test_binary_broadcasts(b_shape, layout):
    spec = binary("mul", (2, 20, 5, 7), b_shape)
    check(spec, {**PRODUCT, "z": i32(120, -7, 100)}, layout)


@pytest.mark.parametrize("layout", [NHWC, NCHW4C], **by_name)
def test_add(layout):
    check(binary("add", (2, 20, 5, 7)), SUM, layout)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", ["add", "mul", "max", "min"])
def test_binary_of_floats_that_are_quantized(operator, target):
    params = {"s": f32(0.02), "z": i32(30), "clamp": f32(-30, 97)}
    for dims, b_dims in (((2, 20, 5, 7), (2, 20, 1, 1)), ((2, 3, 5, 7), (2, 3, 5, 7))):
        spec = binary(operator, dims, b_dims, types=("float32", "float32", "int8"))
        for layout in (ROW, NCHW16C):
            check(spec, params, layout, target=target)


@pytest.mark.parametrize("layout", [NHWC, NCHW4C, NCHW16C], **by_name)
@pytest.mark.parametrize("operator", ["add", "mul", "div", "rdiv", "max", "min"])
def test_binary_float32_keeps_pad_lanes_zero(operator, layout):
    params = {"clamp": f32(0.5, 2)}
    check(binary(operator, (2, 3, 5, 7), types=("float32",) * 3), params, layout)


@pytest.mark.parametrize("layout", IMAGES, **by_name)
@pytest.mark.parametrize("b_shape", [(2, 20, 5, 7), (2, 20, 1, 1)])
@pytest.mark.parametrize("operator", ["max", "min"])
def test_extremes(operator, b_shape, layout):
    check(binary(operator, (2, 20, 5, 7), b_shape), DIFFERENCE, layout)


@pytest.mark.parametrize("layout", IMAGES, **by_name)
@pytest.mark.parametrize("b_shape", [(2, 20, 5, 7), (2, 20, 1, 1), (2, 1, 5, 7)])
@pytest.mark.parametrize("operator", ["div", "rdiv"])
def test_quotients(operator, b_shape, layout):
    check(binary(operator, (2, 20, 5, 7), b_shape), QUOTIENT, layout)


@pytest.mark.fast
@pytest.mark.parametrize("target", TARGETS)
def test_quotients_of_every_pair_of_steps(target: Target):
    """A product by a reciprocal differs from a division in some of them."""
    steps = np.arange(-255, 256)
    a, b = (side.ravel() for side in np.meshgrid(steps, steps))
    tensors = {"a": np.abs(a).astype("uint8"), "b": np.abs(b).astype("uint8")}
    spec = binary("div", a.shape, types=("uint8", "uint8", "float32"))
    params = {"m": f32(1.1), "z": i32(0, 0, 0), "clamp": f32(-np.inf, np.inf)}
    y = check(spec, params, target=target, tensors=tensors)
    dividend, divisor = (tensors[name].astype("float32") for name in "ab")
    expected = dividend / np.where(divisor == 0, f32(2.0**-64), divisor) * f32(1.1)
    np.testing.assert_array_equal(y, expected)
    assert (dividend * (f32(1) / divisor.clip(1)) * f32(1.1) != expected)[divisor > 0].any()


@pytest.mark.parametrize("layout", [ROW, NCHW16C], **by_name)
def test_what_is_divided_by_zero_saturates(layout):
    spec = binary("div", (1, 3, 1, 1), types=("int8", "uint8", "int8"))
    tensors = {"a": np.array([3, 4, 5], "int8"), "b": np.full(3, 7, "uint8")}
    tensors = {name: array.reshape(1, 3, 1, 1) for name, array in tensors.items()}
    params = {"m": f32(0.001), "z": i32(4, 7, 11), "clamp": f32(-100, 90)}
    y = check(spec, params, layout, tensors=tensors)
    np.testing.assert_array_equal(y.ravel(), [-89, 11, 101])


def test_quotients_have_no_fixed_point_form():
    with pytest.raises(ScheduleError, match="rdiv: a quotient has no fixed-point form, tflite"):
        Binary(
            operator="rdiv", a_shape=(3,), b_shape=(3,), a="int8", b="int8", y="int8",
            requantize="tflite",
        )  # fmt: skip


def test_binary_takes_the_layout_of_a():
    wanted = Layouts(inputs=(NCHW16C, ROW), output=NHWC)
    expected = Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C)
    assert BINARY_CPU.layouts(binary("add", (1, 16, 2, 2)), wanted) == expected


def test_binary_float32_output():
    check(binary("add", (2, 3, 5, 7), types=("uint8", "int8", "float32")), SUM, NCHW4C)
    check(binary("mul", (2, 3, 5, 7), types=("int8", "int8", "float32")), PRODUCT, NCHW16C)
    check(binary("min", (2, 3, 5, 7), types=("int8", "int8", "float32")), SUM, NCHW16C)
    check(binary("rdiv", (2, 3, 5, 7), types=("int8", "int8", "float32")), QUOTIENT, NCHW16C)


@pytest.mark.parametrize("dims", [(), (5,), (3, 7), (2, 3, 5), (1, 40000), (3, 8, 40, 40)], ids=str)
def test_binary_any_rank_and_size(dims):
    """Above 16384 elements kernels are parallel; 40000 is no multiple of a vector."""
    check(binary("add", dims), SUM)


@pytest.mark.fast
@pytest.mark.parametrize("target", TARGETS)
def test_add_rounds_the_sum_once(target: Target):
    """3 * m_b = 3 + 1.5 * 2**-22 is a tie, and a * m_a is far below what float64 adds to it."""
    spec = Binary(operator="add", a_shape=(64,), b_shape=(64,), a="uint8", b="uint8", y="float32")
    tensors = {"a": np.arange(64, dtype=np.uint8), "b": np.full(64, 3, np.uint8)}
    params = {"m_a": f32(-(2.0**-60)), "m_b": f32(1 + 2.0**-23), "z": i32(0, 0, 0)}
    params["clamp"] = f32(-np.inf, np.inf)
    y = check(spec, params, target=target, tensors=tensors)
    np.testing.assert_array_equal(y, f32(3 + 2.0**-21, *[3 + 2.0**-22] * 63))


@pytest.mark.isa("avx2")
def test_add_is_one_vectorized_fma():
    built, _ = build(
        binary("add", (1, 64, 8, 8)),
        Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C),
        named_target("x86-avx2"),
    )
    assembly = built.executable.inspect_source("asm")
    vectors = len(re.findall(r"vfmadd\w+ps\s", assembly))
    assert vectors > 0
    # The product that is added stays a product: one multiplication beside each fma.
    assert len(re.findall(r"vmulps\s", assembly)) == vectors
    assert "fmaf" not in assembly


def test_builds_for_aarch64():
    target = named_target("aarch64")
    wanted = Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C)
    built, _ = build(binary("add", (1, 64, 8, 8)), wanted, target)
    assert re.search(r"fmla\s+v\d+\.4s", built.executable.inspect_source("asm"))


@pytest.mark.parametrize("target", ["x86-avx2", "aarch64"])
def test_quotients_are_divided_by_vectors(target):
    wanted = Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C)
    built, _ = build(binary("div", (1, 64, 8, 8)), wanted, named_target(target))
    assembly = built.executable.inspect_source("asm")
    assert re.search(r"vdivps\s|fdiv\s+v\d+\.4s", assembly)
    assert not re.search(r"rcpps|frecp", assembly)


def bound(operator: str, shape, bound_shape, seed: int = 1):
    """Return a spec, and constants of which about half are the greater ones."""
    params = {"m": f32(0.8), "z": i32(-3, 5), "clamp": f32(-5, 250)}
    spec = Bound(operator=operator, dims=shape, bound_shape=bound_shape, x="int8", y="uint8")
    size = int(np.prod(bound_shape))
    return spec, params | {"bound": random_values((size,), "uint8", seed) // 2}


BOUNDS = [(1, 20, 1, 1), (1, 1, 1, 1), (1, 20, 5, 7), (2, 1, 5, 7), (1, 1, 1, 7), (2, 20, 5, 7)]


@pytest.mark.parametrize("layout", IMAGES, **by_name)
@pytest.mark.parametrize("bound_shape", BOUNDS, ids=str)
@pytest.mark.parametrize("operator", ["max", "min"])
def test_bound(operator, bound_shape, layout):
    check(*bound(operator, (2, 20, 5, 7), bound_shape), layout)


@pytest.mark.fast
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operator", ["max", "min"])
def test_bound_on_every_target(operator, target: Target):
    check(*bound(operator, (2, 20, 5, 7), (1, 20, 1, 1)), NCHW16C, target=target)
    check(*bound(operator, (3, 7), (1, 7)), ROW, target=target)
    check(*bound(operator, (5,), (5,)), ROW, target=target)


def test_bound_of_a_symbolic_batch():
    spec, params = bound("max", (tirx.Var("n", "int64"), 20, 5, 7), (1, 20, 5, 7))
    built, layouts = build(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    tensors = random_tensors(spec, 3)
    y = run(built, spec, layouts, tensors, params)
    expected = reference(spec, tensors, params)
    np.testing.assert_array_equal(NCHW16C.unpack(y, expected.shape), expected)


def slopes(channels: int) -> dict[str, np.ndarray]:
    values = f32(*np.linspace(-0.3, 0.9, channels))
    return {"m": f32(0.5), "m_neg": values, "alpha": values, "clamp": f32(-100, 120)}


@pytest.mark.parametrize(
    ("x", "y"), [("int8", "uint8"), ("uint8", "int8"), ("int8", "float32"), ("float32", "float32")]
)
def test_rescale(x, y):
    params = {**slopes(3), "z": i32(-3, 100 if y == "uint8" else -20)}
    check(Rescale(dims=(2, 3, 5, 7), x=x, y=y), params, NCHW4C)


@pytest.mark.parametrize("layout", IMAGES, **by_name)
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_leaky(dtype, layout):
    spec = Rescale(dims=(2, 20, 5, 7), x=dtype, y=dtype, leaky=True)
    check(spec, {**slopes(20), "z": i32(-3, 7)}, layout)


@pytest.mark.parametrize("dims", [(3, 20), (3, 20, 6)], ids=str)
def test_leaky_without_image(dims):
    check(Rescale(dims=dims, x="int8", y="int8", leaky=True), {**slopes(20), "z": i32(0, 0)})


@pytest.mark.parametrize("layout", [ROW, NCHW16C], **by_name)
@pytest.mark.parametrize("x", ["uint8", "int8"])
def test_table(x, layout):
    params = {"table": random_values((256,), "int8", 5)}
    check(Table(dims=(2, 3, 5, 7), x=x, y="int8"), params, layout)


REPACKS = [
    (ROW, 3, NHWC),
    (ROW, 3, NCHW4C),
    (ROW, 3, NCHW16C),
    (ROW, 20, NCHW16C),
    (NHWC, 3, ROW),
    (NHWC, 20, NCHW4C),
    (NCHW4C, 20, NCHW16C),
    (NCHW16C, 20, NCHW16C),
    (NCHW16C, 32, NCHW16C),
    (NCHW16C, 20, ROW),
    (NCHW16C, 32, NHWC),
]


@pytest.mark.parametrize(
    ("layout", "channels", "output"), REPACKS, ids=lambda v: getattr(v, "name", v)
)
def test_quantize_between_layouts(layout, channels, output):
    params = {"s": f32(0.013), "z": i32(128), "clamp": f32(-128, 127)}
    check(Quantize(dims=(2, channels, 5, 7), y="uint8"), params, layout, output)


@pytest.mark.parametrize(
    ("layout", "channels", "output"), REPACKS, ids=lambda v: getattr(v, "name", v)
)
def test_dequantize_between_layouts(layout, channels, output):
    params = {"s": f32(0.013), "z": i32(-5)}
    check(Dequantize(dims=(2, channels, 5, 7), x="int8"), params, layout, output)


def test_quantize_ties_and_saturation():
    x = f32(0.25, 0.75, -0.25, -0.75, 1e30, -1e30, np.inf, -np.inf, 3.4e38, 1e-45)
    params = {"s": f32(0.5), "z": i32(-3), "clamp": f32(-125, 130)}
    y = check(Quantize(dims=(10,), y="int8"), params, tensors={"x": x})
    np.testing.assert_array_equal(y[:6], [-3, -1, -3, -5, 127, -128])


@pytest.mark.parametrize("layout", [ROW, NCHW16C], **by_name)
def test_symbolic_batch(layout):
    n = tirx.Var("n", "int64")
    spec = binary("add", (n, 20, 5, 7))
    built, layouts = build(spec, Layouts(inputs=(layout, layout), output=layout))
    for batch in (1, 3):
        tensors = random_tensors(spec, batch)
        y = run(built, spec, layouts, tensors, SUM)
        expected = reference(spec, tensors, SUM)
        np.testing.assert_array_equal(layout.unpack(y, expected.shape), expected)


@pytest.mark.parametrize(("side", "is_parallel"), [(31, False), (32, True)])
def test_only_large_tensors_are_parallel(side, is_parallel):
    spec, layouts = binary("add", (1, 16, side, side)), Layouts(inputs=(ROW, ROW), output=ROW)
    sch = Schedule(BINARY_CPU.kernel(spec, layouts))
    BINARY_CPU.default(sch, spec, named_target("x86"))
    assert ("T.parallel" in sch.mod.script()) == is_parallel


def test_searched_schedules_compute_the_same():
    shape = (1, 20, 40, 40)
    check(binary("add", shape), SUM, NCHW16C, searched=True)
    check(binary("mul", shape, (1, 20, 1, 1)), {**PRODUCT, "z": i32(1, 2, 3)}, searched=True)


def test_equal_shapes_share_one_kernel():
    """Constants are arguments, so the PrimFunc knows nothing of them."""
    spec, layouts = binary("add", (1, 3, 2, 2)), Layouts(inputs=(ROW, ROW), output=ROW)
    tvm.ir.assert_structural_equal(
        BINARY_CPU.kernel(spec, layouts), BINARY_CPU.kernel(spec, layouts)
    )
    names = [str(p.name) for p in BINARY_CPU.kernel(spec, layouts).params]
    assert names == ["a", "b", "m_a", "m_b", "z", "clamp", "binary"]


def test_refuses_other_targets():
    spec = binary("add", (1,))
    assert BINARY_CPU.refuses(spec, Target("c")) == "target is c, not llvm"
    assert BINARY_CPU.refuses(spec, Target("llvm")) is None
    assert select(spec, Target("llvm")) is BINARY_CPU


@pytest.mark.fast
@pytest.mark.parametrize(("size", "by_move"), [(8, True), (7, False)])
@pytest.mark.parametrize(("source", "output"), [(ROW, NCHW16C), (NCHW16C, ROW)], **by_name)
def test_bytes_change_layouts_where_tiles_can(source, output, size, by_move):
    dims, wanted = (1, 32, size, size), Layouts(inputs=(source,), output=output)
    before = QUANTIZE_CPU.layouts(Quantize(dims=dims, y="uint8"), wanted)
    behind = DEQUANTIZE_CPU.layouts(Dequantize(dims=dims, x="uint8"), wanted)
    assert before == (Layouts(inputs=(source,), output=source) if by_move else wanted)
    assert behind == (Layouts(inputs=(output,), output=output) if by_move else wanted)


@pytest.mark.fast
def test_other_layouts_are_quantized_as_wanted():
    wanted = Layouts(inputs=(ROW,), output=NHWC)
    assert QUANTIZE_CPU.layouts(Quantize(dims=(1, 32, 8, 8), y="uint8"), wanted) == wanted
