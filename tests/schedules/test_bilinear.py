"""Bilinear resize of floats: a number worked by hand, sizes of all kinds, on CPUs as by NumPy."""

import numpy as np
import pytest
from tvm import tirx

from relay_int8.numerics.interpolation import COORDINATES, axis_lerps
from schedules.reference.kernels import reference
from schedules.spec import Bilinear
from tests.schedules.any_layout_runs import check, random_tensors


def resize(size, out_size, batch=2) -> Bilinear:
    height, width = size
    return Bilinear(batch=batch, channels=3, height=height, width=width, out_size=out_size)


def constants(spec: Bilinear, coordinates: str = "half_pixel") -> dict[str, np.ndarray]:
    rows, row_weights = axis_lerps(spec.height, spec.out_size[0], coordinates)
    columns, column_weights = axis_lerps(spec.width, spec.out_size[1], coordinates)
    return {
        "rows": rows,
        "row_weights": row_weights,
        "columns": columns,
        "column_weights": column_weights,
    }


@pytest.mark.fast
def test_between_four_pixels():
    spec = Bilinear(batch=1, channels=1, height=2, width=2, out_size=(1, 1))
    weights = {"row_weights": np.float32([0.25]), "column_weights": np.float32([0.5])}
    taps = {"rows": np.int32([0, 1]), "columns": np.int32([0, 1])}
    x = np.float32([[[[0, 4], [8, 18]]]])
    assert reference(spec, {"x": x}, weights | taps) == 4.75


@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize(
    ("size", "out_size"),
    [
        ((5, 6), (40, 48)),
        ((7, 9), (37, 5)),
        ((40, 33), (9, 17)),
        ((1, 1), (3, 20)),
        ((9, 9), (1, 1)),
    ],
)
def test_equals_reference(size, out_size, coordinates):
    spec = resize(size, out_size)
    check(spec, constants(spec, coordinates))


def test_open_batch():
    spec = resize((4, 4), (16, 16), tirx.Var("n", "int64"))
    for batch in (1, 3):
        check(spec, constants(spec), tensors=random_tensors(spec, batch))
