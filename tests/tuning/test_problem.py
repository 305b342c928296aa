"""Problems: defaults solve them, and they are hard where integers go wrong."""

import dataclasses

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.tuning.problem import problem
from schedules.layout import NCHW16C, ROW
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import (
    Bilinear,
    Binary,
    Bound,
    Concat,
    Conv2d,
    Dense,
    Dequantize,
    Interpolate,
    Move,
    Normalize,
    Pool2d,
    Quantize,
    Rescale,
    Softmax,
    Table,
)
from schedules.targets import native_target
from schedules.template import Layouts
from tests.compiled import compiled
from tests.schedules.product_cases import attention_of, product_of
from tests.schedules.recurrence_cases import CASES
from tests.schedules.suppression_cases import CASES as SUPPRESSIONS

IMAGE = (2, 24, 6, 5)
CONV = Conv2d(
    batch=2,
    in_channels=24,
    out_channels=40,
    height=9,
    width=8,
    kernel=(3, 3),
    padding=(1, 1, 1, 1),
    x="uint8",
    y="uint8",
)
POOL = Pool2d(
    reduce="avg",
    batch=2,
    channels=24,
    height=6,
    width=5,
    out_size=(3, 2),
    kernel=(2, 2),
    strides=(2, 2),
    padding=(0, 0),
    x="uint8",
    y="uint8",
)
SPECS = {
    "conv": CONV,
    "conv residual": dataclasses.replace(CONV, residual="uint8", y="int8"),
    "conv leaky": dataclasses.replace(CONV, leaky=True, x="int8"),
    "conv fixed": dataclasses.replace(CONV, y="int8", requantize="gemmlowp"),
    "conv swish": dataclasses.replace(CONV, activation="swish"),
    "average fixed": dataclasses.replace(POOL, requantize="tflite"),
    "conv to float": dataclasses.replace(CONV, y="float32"),
    "conv float": dataclasses.replace(CONV, x="float32", y="float32"),
    "depthwise": dataclasses.replace(CONV, out_channels=24, groups=24),
    "dense": Dense(rows=3, n=37, k=50, x="uint8", y="int8"),
    "avg": POOL,
    "interpolate": Interpolate(
        batch=2, channels=24, height=6, width=5, out_size=(9, 4), x="uint8", y="int8"
    ),
    "bilinear": Bilinear(batch=2, channels=3, height=6, width=5, out_size=(9, 20)),
    "max": dataclasses.replace(POOL, reduce="max"),
    "add": Binary(operator="add", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="uint8"),
    "greater": Binary(operator="max", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="uint8"),
    "mul": Binary(operator="mul", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="uint8", y="int8"),
    "quotient": Binary(operator="div", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="int8"),
    "bound": Bound(operator="max", dims=IMAGE, bound_shape=(1, 24, 1, 1), x="uint8", y="int8"),
    "upper bound": Bound(operator="min", dims=IMAGE, bound_shape=IMAGE, x="int8", y="uint8"),
    "rescale": Rescale(dims=IMAGE, x="uint8", y="int8"),
    "rescale leaky": Rescale(dims=IMAGE, x="uint8", y="uint8", leaky=True),
    "table": Table(dims=IMAGE, x="int8", y="uint8"),
    "quantize": Quantize(dims=IMAGE, y="uint8"),
    "normalize": Normalize(dims=(4, 9, 40), axes=1, y="int8"),
    "norm of groups": Normalize(dims=IMAGE, groups=4, y="uint8"),
    "softmax": Softmax(dims=(5, 30, 7), y="uint8"),
    "softmax_columns": Softmax(dims=(5, 8, 30), axis=1, y="uint8"),
    "product": product_of(9, 40, 13, turned=True, y="int8"),
    "product fixed": dataclasses.replace(product_of(9, 40, 13), requantize="gemmlowp"),
    "product of floats": product_of(9, 40, 13, a="float32", b="float32", y="float32"),
    "attention": attention_of(24, 16, 8, 12, q="int8", y="int8"),
    "masked attention": attention_of(24, 16, 8, 12, mask="keys"),
    "recurrence": CASES["gru_state"],
    "suppression": SUPPRESSIONS["limits"],
    "recurrence of floats": dataclasses.replace(CASES["lstm_ragged"], quantized=False, y="float32"),
    "dequantize": Dequantize(dims=IMAGE, x="int8"),
    "concat": Concat(shapes=(IMAGE, IMAGE), axis=1, x="uint8"),
    "pad": Move(move="pad", x_shape=IMAGE, y_shape=(2, 24, 8, 6), arguments=(0, 0, 1, 1), x="int8"),
}
ROUNDED = [
    name
    for name, spec in SPECS.items()
    if spec.dtype("y") != "float32" and spec.kind not in ("table", "concat", "move", "suppression")
    if name != "max"
]


def kernel(name: str, target: Target | None = None) -> Kernel:
    spec, target = SPECS[name], target or native_target()
    template = select(spec, target)
    image = len(spec.shape("y")) == 4
    layout = NCHW16C if image else ROW
    wanted = Layouts(inputs=(layout,) * len(spec.tensors), output=layout)
    return Kernel(
        template=template, spec=spec, layouts=template.layouts(spec, wanted), target=target
    )


@pytest.mark.parametrize("name", SPECS)
def test_the_default_schedule_solves_it(name):
    found = kernel(name)
    posed = problem(found)
    y = tvm.runtime.tensor(posed.canary)
    library = compiled(found.default().mod, found.target)
    assert posed.fault(y.numpy())
    library["main"](*(tvm.runtime.tensor(array) for array in posed.arguments), y)
    assert posed.fault(y.numpy()) is None


@pytest.mark.fast
@pytest.mark.parametrize("name", SPECS)
def test_an_output_that_is_not_written_is_wrong(name):
    posed = problem(kernel(name))
    with np.errstate(invalid="ignore"):
        assert not (posed.unpack(posed.canary) == posed.expected).any()


@pytest.mark.fast
@pytest.mark.parametrize("name", ROUNDED)
def test_some_outputs_saturate_and_most_do_not(name):
    y = problem(kernel(name)).expected
    limits = np.iinfo(y.dtype)
    assert 0.02 < np.isin(y, (limits.min, limits.max)).mean() < 0.2


@pytest.mark.fast
@pytest.mark.parametrize("name", [name for name in SPECS if "fixed" in name])
def test_some_fixed_point_outputs_are_ties(name):
    """Where halves of negative sums go is what tells two roundings apart."""
    found = kernel(name)
    up, away = (
        problem(dataclasses.replace(found, spec=dataclasses.replace(SPECS[name], requantize=how)))
        for how in ("tflite", "tpu-mlir")
    )
    assert (up.expected != away.expected).any()


@pytest.mark.fast
@pytest.mark.parametrize(
    "name", [name for name in ROUNDED if "fixed" not in name and "swish" not in name]
)
def test_some_outputs_are_ties(name):
    """With the other rounding of halves, away from zero, other integers come out."""
    found = kernel(name)
    expected = problem(found).expected
    rint = np.rint

    def half_away(t):
        return np.where(np.abs(t % 1) == 0.5, np.copysign(np.ceil(np.abs(t)), t), rint(t))

    with pytest.MonkeyPatch.context() as patch:
        posed = problem(found)
        patch.setattr("schedules.reference.exact.np.rint", half_away)
        other = problem(found)
    assert (posed.expected == expected).all()
    assert (other.expected != expected).any()


@pytest.mark.fast
def test_one_wrong_output_is_named():
    posed = problem(kernel("dense"))
    y = posed.expected.copy()
    y[1, 7] += 1
    right = posed.expected[1, 7]
    expected = f"1 of {y.size} outputs are wrong, the first at (1, 7): {right + 1}, not {right}"
    assert posed.fault(y) == expected


@pytest.mark.fast
def test_inputs_have_the_extremes_and_are_seeded():
    one, two = problem(kernel("conv")), problem(kernel("conv"))
    for a, b in zip(one.arguments, two.arguments, strict=True):
        np.testing.assert_array_equal(a, b)
    x, w = one.arguments[:2]
    assert (x.min(), x.max(), w.min(), w.max()) == (0, 255, -128, 127)
