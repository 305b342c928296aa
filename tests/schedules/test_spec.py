"""Specs: text carries them whole, symbolic sizes included."""

import dataclasses

import pytest
from tvm import tirx

from schedules.spec import Binary, Concat, Conv2d, Dense, Move, Quantize, from_json, sized, to_json
from tests.schedules.product_cases import attention_of, product_of

pytestmark = pytest.mark.fast

CONV = {"batch": 2, "in_channels": 3, "height": 9, "width": 8, "out_channels": 4, "kernel": (3, 2)}
SQUARE = {
    "batch": 2,
    "in_channels": 4,
    "height": 3,
    "width": 3,
    "out_channels": 8,
    "kernel": (3, 3),
}


@pytest.mark.parametrize(
    "spec",
    [
        Conv2d(**CONV, padding=(0, 1, 2, 3), strides=(2, 1), x="uint8", y="int8", residual="int8"),
        Dense(rows=3, n=4, k=5, x="float32", y="float32", leaky=True),
        Concat(shapes=((1, 2, 3, 3), (1, 4, 3, 3)), axis=1, x="uint8"),
        Move(move="slice", x_shape=(4, 4), y_shape=(2, 4), arguments=(0, 0, 2, 1), x="int8"),
        Quantize(dims=(1, 2), y="uint8"),
    ],
)
def test_text_round_trip(spec):
    assert from_json(to_json(spec)) == spec


def test_symbolic_sizes_stay_one():
    n = tirx.Var("n", "int64")
    spec = Binary(operator="add", a_shape=(n, 3), b_shape=(n, 3), a="int8", b="int8", y="int8")
    found = from_json(to_json(spec))
    assert found.a_shape[0].same_as(found.b_shape[0]) and found.a_shape[0].name == "n"
    batched = from_json(to_json(Conv2d(**(CONV | {"batch": n}), x="uint8", y="uint8")))
    assert batched.batch.name == "n" and batched.x == "uint8"


def test_multiples_of_a_symbolic_size_have_names():
    n = tirx.Var("n", "int64")
    spec = Dense(rows=n * 5 * 7, n=8, k=8, x="uint8", y="uint8")
    assert from_json(to_json(spec)).rows.name == "n_times_35"
    assert str(sized("n_times_35", {"n": n})) == str(n * 35)
    assert sized("n", {"n": n}).same_as(n)
    with pytest.raises(ValueError, match="size n \\* n of a kernel is no multiple"):
        to_json(dataclasses.replace(spec, rows=n * n))


def test_shapes_and_types():
    spec = Conv2d(**CONV, dilation=(2, 1), x="uint8", y="int8", residual="uint8")
    assert spec.tensors == ("x", "r")
    assert spec.shape("r") == spec.shape("y") == (2, 4, 5, 7)
    assert [spec.dtype(name) for name in ("x", "r", "y")] == ["uint8", "uint8", "int8"]
    assert Concat(shapes=((1, 2), (1, 4)), axis=1, x="uint8").shape("y") == (1, 6)
    assert Quantize(dims=(1,), y="int8").dtype("x") == "float32"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        # Rows 0 and 2 of 3 x 3 windows leave a row out, columns likewise: 7 taps an axis, not 9.
        (Conv2d(**SQUARE, padding=(1, 1, 1, 1), x="uint8", y="uint8"), 2 * 4 * 8 * 7 * 7),
        (Conv2d(**SQUARE, x="uint8", y="uint8"), 2 * 4 * 8 * 3 * 3),
        (Conv2d(**(SQUARE | {"batch": tirx.Var("n", "int64")}), x="int8", y="int8"), 4 * 8 * 9),
        (Dense(rows=3, n=4, k=5, x="float32", y="float32"), 60),
        (product_of(3, 4, 5, heads=2), 120),
        (attention_of(3, 4, 5, 6, heads=2), 2 * 3 * 4 * (5 + 6)),
        (Quantize(dims=(1, 2), y="uint8"), 0),
    ],
)
def test_multiplications_leave_the_padding_out(spec, expected):
    assert spec.multiplications == expected
