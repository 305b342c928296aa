"""Kernels of any layout on the emulated GPU: equal to the reference, bit for bit."""

from typing import Any

import numpy as np
import pytest

from schedules.layout import NCHW4C, NHWC, ROW, Layout
from schedules.reference.kernels import reference
from schedules.spec import Binary, Bound, Concat, Dequantize, Move, Quantize, Rescale, Spec, Table
from schedules.template import Arrays, Layouts
from tests.cuda.run_template import Built, Case, build
from tests.schedules.any_layout_runs import f32, i32, random_tensors, random_values
from tests.schedules.test_move import moves
from tests.schedules.test_pool2d import WINDOWS, average, pool

IMAGE = (2, 6, 5, 8)
SUM = {"m_a": f32(0.37), "m_b": f32(0.61), "z": i32(120, -7, 9), "clamp": f32(-9, 246)}
PRODUCT = {"m": f32(0.0173), "z": i32(120, -7, -28), "clamp": f32(-100, 155)}
QUOTIENT = {"m": f32(3.7), "z": i32(120, -7, 100), "clamp": f32(-100, 155)}
LIMITS = {"m": f32(0.8), "z": i32(-3, 5), "clamp": f32(-5, 250)}
LIMIT = random_values((240,), "uint8") // 2
SLOPES = f32(*np.linspace(-0.3, 0.9, 6))
FLOATS = ("float32",) * 3


def binary(operator: str, b_shape=IMAGE, types=("uint8", "int8", "uint8"), shape=IMAGE) -> Binary:
    a, b, y = types
    return Binary(operator=operator, a_shape=shape, b_shape=b_shape, a=a, b=b, y=y)


def bound(operator: str, shape) -> Bound:
    return Bound(operator=operator, dims=IMAGE, bound_shape=shape, x="int8", y="uint8")


def row(
    spec: Spec, params: dict[str, Any], x: Layout = NCHW4C, y: Layout | None = None
) -> tuple[Case, Arrays]:
    inputs = (x,) * len(spec.tensors)
    return Case(spec=spec, wanted=Layouts(inputs=inputs, output=y or x)), params


def rows() -> dict[str, tuple[Case, Arrays]]:
    """Return kernels and their constants, by name."""
    max_pool, mean = pool("max", "hangs over", "int8", "int8", 6), {}
    for window in WINDOWS:
        spec = pool("avg", window, "uint8", "int8", 6)
        mean[f"average_{window}"] = row(spec, average(spec))
    floats = pool("avg", "hangs over", "float32", "float32", 6)
    s = {"s": f32(0.031), "z": i32(-3), "clamp": f32(-125, 130)}
    rescale = {"m": f32(0.8), "m_neg": SLOPES, "z": i32(-3, 5), "clamp": f32(-5, 250)}
    leaky = Rescale(dims=IMAGE, x="int8", y="uint8", leaky=True)
    table = {"table": np.arange(-128, 128, dtype=np.int8)[::-1].copy()}
    fill = {"fill": np.array([7], np.uint8)}
    concat = Concat(shapes=((2, 3, 5, 8), (2, 6, 5, 8), (2, 8, 5, 8)), axis=1, x="int8")
    whole = Concat(shapes=((2, 4, 5, 8), (2, 8, 5, 8)), axis=1, x="uint8")
    moved = moves(6) | {"interleave": moves(20)["interleave"]}  # its channels are four phases
    return {
        "add": row(binary("add"), SUM),
        "add_flat": row(binary("add", (7,), shape=(7,)), SUM, ROW),
        "add_scalars": row(binary("add", (), shape=()), SUM, ROW),
        "add_nhwc": row(binary("add"), SUM, NHWC),
        "difference": row(binary("add"), SUM | {"m_b": f32(-0.61)}),
        "max": row(binary("max"), SUM),
        "max_channel": row(binary("max", (2, 6, 1, 1)), SUM),
        "min_to_float": row(binary("min", types=("int8", "int8", "float32")), SUM),
        "min_float": row(binary("min", types=FLOATS), {"clamp": f32(-1, 2)}),
        "mul_channel": row(binary("mul", (2, 6, 1, 1)), PRODUCT),
        "div": row(binary("div"), QUOTIENT),
        "rdiv_channel": row(binary("rdiv", (2, 6, 1, 1)), QUOTIENT),
        "max_constant": row(bound("max", (1, 6, 1, 1)), LIMITS | {"bound": LIMIT[:6]}),
        "min_constant": row(bound("min", (1, 6, 1, 1)), LIMITS | {"bound": LIMIT[:6]}),
        "min_rows": row(bound("min", (1, 1, 5, 1)), LIMITS | {"bound": LIMIT[:5]}, ROW),
        "max_image": row(bound("max", (1, 6, 5, 8)), LIMITS | {"bound": LIMIT}, NCHW4C),
        "mul_to_float": row(binary("mul", types=("int8", "int8", "float32")), PRODUCT),
        "add_float": row(binary("add", types=FLOATS), {"clamp": f32(-1, 2)}),
        "mul_quantized": row(binary("mul", (2, 6, 1, 1), types=("float32", "float32", "int8")), s),
        "quantize": row(Quantize(dims=IMAGE, y="uint8"), s, ROW, NCHW4C),
        "quantize_row": row(Quantize(dims=(3, 7), y="int8"), s, ROW),
        "dequantize": row(Dequantize(dims=IMAGE, x="int8"), s, NCHW4C, ROW),
        "dequantize_blocked": row(Dequantize(dims=IMAGE, x="uint8"), s, ROW, NCHW4C),
        "rescale_leaky": row(leaky, rescale),
        "rescale_leaky_row": row(leaky, rescale, ROW),
        "table": row(Table(dims=IMAGE, x="int8", y="int8"), table),
        "max_pool": row(max_pool, {}),
        "max_pool_row": row(max_pool, {}, ROW),
        "max_pool_dilated": row(pool("max", "dilated", "uint8", "uint8", 6), {}),
        "average_float": row(floats, average(floats)),
        **mean,
        "concat": row(concat, {}),
        "concat_whole": row(whole, {}),
        "concat_to_row": row(concat, {}, NCHW4C, ROW),
        **{f"move_{name}": row(spec, fill) for name, spec in moved.items()},
        "move_rows": row(moves(6)["resize"], fill, ROW),
        "pack": row(Move(move="copy", x_shape=IMAGE, y_shape=IMAGE, x="int8"), {}, ROW, NCHW4C),
        "unpack": row(Move(move="copy", x_shape=IMAGE, y_shape=IMAGE, x="int8"), {}, NCHW4C, ROW),
        "pack_float": row(
            Move(move="copy", x_shape=IMAGE, y_shape=IMAGE, x="float32"), {}, ROW, NCHW4C
        ),
    }


ROWS = {name.replace(" ", "_"): value for name, value in rows().items()}


@pytest.fixture(scope="module")
def built() -> Built:
    return build({name: case for name, (case, _) in ROWS.items()})


@pytest.mark.parametrize("name", ROWS)
def test_equals_reference(built, name):
    case, params = ROWS[name]
    tensors = random_tensors(case.spec)
    expected = reference(case.spec, tensors, params)
    np.testing.assert_array_equal(built.run(name, {**tensors, **params}), expected)


def test_sampled():
    names = ("add", "max_pool", "average_dilated", "concat", "quantize_row")
    sampled = build({name: ROWS[name][0] for name in names}, seed=3)
    for name in names:
        test_equals_reference(sampled, name)


def test_add_rounds_the_sum_once(built):
    """Each kernel that adds a product does so by one fma."""
    assert "__fmaf_rn(" in built.source


def test_blocked_stores_are_four_bytes(built):
    start = built.source.rindex("add_kernel(")
    body = built.source[start : built.source.index("\n}", start)]
    assert "*(uint*)(" in body
