"""Statistics for calibration: exact, whatever the layout, the size and the number of tasks."""

import numpy as np
import pytest
import tvm
from tvm import tirx

from schedules.cpu.open_size.observe import OBSERVE_CPU
from schedules.layout import NCHW4C, NCHW16C, NHWC, ROW
from schedules.reference.kernels import reference
from schedules.space import Kernel
from schedules.spec import MAGNITUDE, SIGNED, Observe, to_json
from schedules.targets import named_target
from schedules.template import Layouts
from tests.compiled import compiled
from tests.schedules.any_layout_runs import NATIVE, build, check, f32, i32, run

LAYOUTS = [ROW, NHWC, NCHW4C, NCHW16C]
HISTOGRAM = {"low": f32(-2.5), "inverse": f32(100 / 5.1), "mask": i32(SIGNED)}


def values(shape: tuple[int, ...], scale: float = 1) -> dict[str, np.ndarray]:
    """Return normal values about -9, three of them not finite."""
    x = (np.random.default_rng(0).standard_normal(shape) * scale - 9).astype(np.float32)
    x.flat[[1, 5, x.size - 1]] = np.nan, np.inf, -np.inf
    return {"x": x}


def histogram(shape: tuple[int, ...]) -> Observe:
    return Observe(statistic="histogram", dims=shape, bins=100)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (1, 32, 130, 70), (3, 20, 100, 60)], ids=str)
def test_range(shape, layout):
    """All values are negative: a pad lane that is counted is a maximum of zero."""
    tensors = values(shape)
    y = check(Observe(statistic="range", dims=shape), {}, layout, tensors=tensors)
    assert y[1] < 0
    assert y[2] == 3


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@pytest.mark.parametrize("shape", [(2, 3, 5, 7), (3, 20, 100, 60)], ids=str)
def test_histogram(shape, layout):
    tensors = {"x": values(shape, 3)["x"] + np.float32(9)}
    y = check(histogram(shape), HISTOGRAM, layout, tensors=tensors)
    assert y.sum() == np.isfinite(tensors["x"]).sum()


@pytest.mark.fast
@pytest.mark.parametrize("mask", [SIGNED, MAGNITUDE])
@pytest.mark.parametrize("target", ["x86", "native"])
def test_every_target(target, mask):
    shape = (1, 3, 40, 40)
    where = {"target": named_target(target), "tensors": values(shape, 30)}
    check(Observe(statistic="range", dims=shape), {}, **where)
    check(histogram(shape), HISTOGRAM | {"mask": i32(mask)}, **where)


@pytest.mark.parametrize("size", [1, 15, 257, 100_003])
def test_ragged_sizes(size):
    x = np.random.default_rng(1).standard_normal(size).astype(np.float32)
    check(Observe(statistic="range", dims=(size,)), {}, tensors={"x": x})
    check(histogram((size,)), HISTOGRAM, tensors={"x": x})


LARGE, SMALL = (1, 32, 130, 70), (2, 16, 5, 7)


@pytest.mark.parametrize("statistic", ["range", "histogram"])
@pytest.mark.parametrize(("first", "second"), [(LARGE, (1, 16, 200, 90)), (SMALL, (1, 48, 1, 1))])
def test_one_kernel_serves_every_size(first, second, statistic):
    params = HISTOGRAM if statistic == "histogram" else {}
    bins = 100 if params else 0
    specs = [Observe(statistic=statistic, dims=dims, bins=bins) for dims in (first, second)]
    asked = Layouts(inputs=(NCHW16C,), output=ROW)
    texts = {to_json(OBSERVE_CPU.general(spec, asked)[0]) for spec in specs}
    assert len(texts) == 1
    general, layouts = OBSERVE_CPU.general(specs[0], asked)
    kernel = Kernel(template=OBSERVE_CPU, spec=general, layouts=layouts, target=NATIVE)
    built = compiled(kernel.default().mod, NATIVE)
    for spec in specs:
        x = values(spec.dims, 3)["x"]
        y = tvm.runtime.tensor(np.full(spec.shape("y"), 77, spec.dtype("y")))
        arrays = [NCHW16C.pack(x), *(params[name] for name in spec.params)]
        built["main"](*(tvm.runtime.tensor(array) for array in arrays), y)
        np.testing.assert_array_equal(y.numpy(), reference(spec, {"x": x}, params))


def test_open_sizes_have_kernels_of_their_own():
    asked = Layouts(inputs=(NCHW16C,), output=ROW)
    spec = Observe(statistic="range", dims=(tirx.Var("n", "int64"), 16, 9, 9))
    assert OBSERVE_CPU.general(spec, asked) == (spec, asked)


def test_blocks_with_lanes_past_the_last_channel_are_made_row_major():
    asked = Layouts(inputs=(NCHW16C,), output=ROW)
    for channels, layout in ((20, ROW), (32, NCHW16C)):
        spec = Observe(statistic="range", dims=(1, channels, 9, 9))
        assert OBSERVE_CPU.layouts(spec, asked).inputs == (layout,)


def test_nothing_finite():
    tensors = {"x": np.full(300, np.nan, np.float32)}
    y = check(Observe(statistic="range", dims=(300,)), {}, tensors=tensors)
    np.testing.assert_array_equal(y, f32(np.inf, -np.inf, 300))
    assert not check(histogram((300,)), HISTOGRAM, tensors=tensors).any()


@pytest.mark.fast
@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=lambda layout: layout.name)
def test_without_a_width_nothing_is_counted(layout):
    shape = (1, 20, 30, 60)
    params = HISTOGRAM | {"inverse": f32(0)}
    assert not check(histogram(shape), params, layout, tensors=values(shape)).any()


def test_extreme_values_stay_in_the_histogram():
    """Differences that overflow land in the last bin, never outside of the buffer."""
    x = f32(3.4e38, -3.4e38, 1e-45, -0.0, 2.5999, 1e10)
    for low in (-3.4e38, 0.0):
        params = HISTOGRAM | {"low": f32(low), "inverse": f32(1.0)}
        check(histogram((6,)), params, tensors={"x": x})


@pytest.mark.parametrize("layout", [ROW, NCHW16C], ids=lambda layout: layout.name)
def test_symbolic_batch(layout):
    n = tirx.Var("n", "int64")
    for spec, params in (
        (Observe(statistic="range", dims=(n, 20, 9, 7)), {}),
        (Observe(statistic="histogram", dims=(n, 20, 9, 7), bins=100), HISTOGRAM),
    ):
        built, layouts = build(spec, Layouts(inputs=(layout,), output=ROW))
        for batch in (1, 3, 40):
            tensors = values((batch, 20, 9, 7), 3)
            y = run(built, spec, layouts, tensors, params)
            np.testing.assert_array_equal(y, reference(spec, tensors, params))


def test_searched_schedule_computes_the_same():
    shape = (1, 64, 40, 40)
    check(histogram(shape), HISTOGRAM, NCHW16C, searched=True)
