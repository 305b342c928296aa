"""Kernels that do not check their arguments are given none that do not fit."""

import numpy as np
import pytest
import tvm
from tvm import tirx

from schedules.layout import ROW
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Binary
from schedules.targets import native_target
from schedules.template import Layouts
from tests.compiled import compiled

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def add():
    """A sum of two float32 matrices of any number of rows."""
    rows, target = tirx.Var("n", "int64"), native_target()
    spec = Binary(
        operator="add", a_shape=(rows, 5), b_shape=(rows, 5), a="float32", b="float32", y="float32"
    )
    template, layouts = select(spec, target), Layouts(inputs=(ROW, ROW), output=ROW)
    kernel = Kernel(template=template, spec=spec, layouts=layouts, target=target)
    return compiled(kernel.default().mod, target)


def tensors(a, b, y, dtype="float32"):
    """Return ones; the third argument is where the sum is clamped."""
    arrays = np.ones(a, dtype), np.ones(b, dtype), np.float32([-9, 9]), np.ones(y, dtype)
    return [tvm.runtime.tensor(array) for array in arrays]


def test_what_fits_is_run(add):
    arguments = tensors((3, 5), (3, 5), (3, 5))
    add["main"](*arguments)
    np.testing.assert_array_equal(arguments[-1].numpy(), 2)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (tensors((3, 5), (3, 5), (3, 6)), r"\(3, 6\), not \[3, 5\]"),
        (tensors((3, 5), (2, 5), (3, 5)), r"\(2, 5\), not \[3, 5\]"),
        (tensors((3, 5), (3, 5), (3, 5), "int8"), "is int8"),
        (tensors((3, 5), (3, 5), (3, 5))[1:], "zip"),
        (tensors((3, 5), (3, 5), (15,)), "zip"),
    ],
    ids=["shape", "rows", "type", "number", "rank"],
)
def test_what_does_not_fit_is_an_error(add, arguments, found):
    with pytest.raises((AssertionError, ValueError), match=found):
        add["main"](*arguments)
