"""One kernel of arithmetic, pooling or packing for all sizes: the bits of those that know theirs."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import tvm

from schedules.any_size import of_any_size
from schedules.cpu.open_size.arithmetic import ARITHMETIC_CPU
from schedules.cpu.open_size.pack_open import PACK_OPEN
from schedules.cpu.open_size.pool2d_open import POOL2D_OPEN_F32
from schedules.layout import NCHW4C, NCHW16C, ROW, Layout
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import (
    LAST,
    Arithmetic,
    Binary,
    Gelu,
    Move,
    Pool2d,
    Rescale,
    Sigmoid,
    Spec,
    from_json,
    to_json,
)
from schedules.targets import native_target
from schedules.template import Layouts, ScheduleTemplate
from tests.compiled import CompiledKernels, compiled

TARGET = native_target()
LAYOUTS = {"row": ROW, "blocks": NCHW16C}
F32 = "float32"
RNG = np.random.default_rng(0)


def compiled_kernel(template: ScheduleTemplate, spec: Spec, layouts: Layouts) -> CompiledKernels:
    kernel = Kernel(template=template, spec=spec, layouts=layouts, target=TARGET)
    return compiled(kernel.default().mod, TARGET)


def run(
    built: CompiledKernels,
    spec: Spec,
    layouts: Layouts,
    arrays: dict[str, np.ndarray],
    general: Spec | None = None,
) -> np.ndarray:
    """Return y as it lies in memory, of the kernel of ``spec`` or of ``general``."""
    y = np.full(layouts.output.physical_shape(spec.shape("y")), 77, np.float32)
    inputs = [
        layout.pack(arrays[name]) if arrays[name].ndim == 4 else arrays[name]
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    constants = [arrays[name] for name in spec.params]
    if general is not None and LAST in general.params:
        constants.append(np.array([(spec.shape("y")[1] - 1) % 16 + 1], np.int32))
    arguments = [*inputs, *constants, y]
    tensors = [tvm.runtime.tensor(np.ascontiguousarray(argument)) for argument in arguments]
    built["main"](*tensors)
    return tensors[-1].numpy()


def assert_same_bits(specs: list[Spec], layout: Layout, open_template: ScheduleTemplate) -> None:
    """Check that one kernel computes all specs as the kernels do that know their sizes."""
    alike = Layouts(inputs=(layout,) * len(specs[0].tensors), output=layout)
    found = [of_any_size(select(spec, TARGET), spec, alike, TARGET) for spec in specs]
    assert {template for template, _, _ in found} == {open_template}
    assert len({to_json(general) for _, general, _ in found}) == 1
    built = compiled_kernel(open_template, from_json(to_json(found[0][1])), found[0][2])
    for spec in specs:
        arrays = {name: RNG.normal(size=spec.shape(name)).astype(F32) for name in spec.tensors}
        if isinstance(spec, Pool2d) and spec.reduce == "max":
            arrays["x"][:, ::2] = -np.inf  # as masks have them
        arrays["clamp"] = np.array([-0.5, 1.5], F32)
        if "m" in spec.params:
            arrays["m"] = RNG.random(spec.shape("y")[2:]).astype(F32)
        own = compiled_kernel(select(spec, TARGET), spec, alike)
        np.testing.assert_array_equal(
            run(built, spec, alike, arrays, found[0][1]), run(own, spec, alike, arrays)
        )


def binary(operator: str, b_shape: Callable[[tuple[int, ...]], tuple[int, ...]]):
    def _make(dims: tuple[int, ...]) -> Binary:
        return Binary(operator=operator, a_shape=dims, b_shape=b_shape(dims), a=F32, b=F32, y=F32)

    return _make


ARITHMETIC: dict[str, Callable[[tuple[int, ...]], Spec]] = {
    "clamp": lambda dims: Rescale(dims=dims, x=F32, y=F32),
    "sigmoid": lambda dims: Sigmoid(dims=dims),
    "gelu": lambda dims: Gelu(dims=dims),
    "add": binary("add", lambda dims: dims),
    "gate": binary("mul", lambda dims: (1, dims[1], 1, 1)),
    "quotient": binary("rdiv", lambda dims: (1, 1, 1, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name, layout):
    sizes = [(1, 24, 5, 7), (1, 8, 33, 1), (1, 32, 1, 2)]
    assert_same_bits([ARITHMETIC[name](dims) for dims in sizes], LAYOUTS[layout], ARITHMETIC_CPU)


def pooled(reduce, channels, size, out_size, **fields) -> Pool2d:
    window = {"kernel": (3, 2), "strides": (2, 1), "padding": (1, 0)} | fields
    return Pool2d(
        reduce=reduce, batch=1, channels=channels, height=size[0], width=size[1],
        out_size=out_size, x=F32, y=F32, **window,
    )  # fmt: skip


POOLS = {
    "padded": lambda reduce: [
        pooled(reduce, 24, (6, 5), (3, 4)), pooled(reduce, 16, (5, 9), (3, 8))
    ],
    "inside": lambda reduce: [
        pooled(reduce, 24, (7, 5), (3, 4), padding=(0, 0)),
        pooled(reduce, 40, (5, 9), (2, 8), padding=(0, 0)),
    ],
    "dilated": lambda reduce: [
        pooled(reduce, 16, (7, 5), (3, 3), padding=(0, 0), dilation=(1, 2))
    ],
    "global": lambda reduce: [
        pooled(reduce, channels, size, (1, 1), kernel=size, strides=(1, 1), padding=(0, 0))
        for channels, size in ((24, (6, 5)), (16, (1, 9)), (40, (12, 12)))
    ],
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reduce", ["max", "avg"])
@pytest.mark.parametrize("window", POOLS)
def test_pools(window, reduce, layout):
    assert_same_bits(POOLS[window](reduce), LAYOUTS[layout], POOL2D_OPEN_F32)


def test_packing():
    layouts = Layouts(inputs=(ROW,), output=NCHW16C)
    sizes = [(1, 32, 3, 5), (1, 20, 4, 4), (1, 3, 1, 1)]
    specs = [Move(move="copy", x_shape=dims, y_shape=dims, x=F32) for dims in sizes]
    found = [of_any_size(select(spec, TARGET), spec, layouts, TARGET) for spec in specs]
    assert {template for template, _, _ in found} == {PACK_OPEN}
    assert len({to_json(general) for _, general, _ in found}) == 1
    built = compiled_kernel(PACK_OPEN, from_json(to_json(found[0][1])), found[0][2])
    for spec in specs:
        x = RNG.normal(size=spec.x_shape).astype(F32)
        np.testing.assert_array_equal(run(built, spec, layouts, {"x": x}), NCHW16C.pack(x))


FUNCTIONS = {
    "sub": lambda x, b: x - b,
    "rsub": lambda x, b: b - x,
    "mul": lambda x, b: x * b,
    "rdiv": lambda x, b: b / x,
    "max": np.maximum,
    "clip": lambda x, b: np.clip(x, -0.5, 0.4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arithmetic_of_operators_of_the_graph(function, layout):
    inputs = (LAYOUTS[layout], ROW)[: 1 if function == "clip" else 2]
    asked = Layouts(inputs=inputs, output=LAYOUTS[layout])
    specs = [
        Arithmetic(function=function, dims=dims, b_dims=() if function == "clip" else (1,))
        for dims in ((1, 24, 3, 5), (1, 8, 1, 1))
    ]
    found = [ARITHMETIC_CPU.general(spec, ARITHMETIC_CPU.layouts(spec, asked)) for spec in specs]
    assert len({to_json(general) for general, _ in found}) == 1
    built = compiled_kernel(ARITHMETIC_CPU, from_json(to_json(found[0][0])), found[0][1])
    for spec in specs:
        arrays = {"x": RNG.normal(size=spec.dims).astype(F32), "b": np.array([0.3], F32)}
        arrays["clamp"] = np.array([-0.5, 0.4], F32)
        y = run(built, spec, asked, arrays, found[0][0])
        tensors = {name: arrays[name] for name in spec.tensors}
        expected = reference(spec, tensors, arrays)
        np.testing.assert_array_equal(asked.output.unpack(y, spec.dims), expected)
        np.testing.assert_array_equal(expected, FUNCTIONS[function](arrays["x"], arrays["b"]))
        assert layout == "row" or not y[:, -1, ..., spec.dims[1] % 16 :].any()


def test_rows_of_any_rank():
    asked = Layouts(inputs=(ROW, ROW), output=ROW)
    spec = Arithmetic(function="add", dims=(3, 5), b_dims=(3, 5))
    general, layouts = ARITHMETIC_CPU.general(spec, asked)
    built = compiled_kernel(ARITHMETIC_CPU, from_json(to_json(general)), layouts)
    arrays = {name: RNG.normal(size=(3, 5)).astype(F32) for name in "xb"}
    np.testing.assert_array_equal(run(built, spec, asked, arrays), arrays["x"] + arrays["b"])


KEPT = {
    "leaky": (Rescale(dims=(1, 8, 3, 3), x=F32, y=F32, leaky=True), NCHW16C),
    "integers": (Rescale(dims=(1, 8, 3, 3), x="int8", y="int8"), NCHW16C),
    "batch": (Rescale(dims=(2, 8, 3, 3), x=F32, y=F32), NCHW16C),
    "four_lanes": (Rescale(dims=(1, 8, 3, 3), x=F32, y=F32), NCHW4C),
    "open_batch": (Rescale(dims=(tvm.tirx.Var("n", "int64"), 8, 3, 3), x=F32, y=F32), ROW),
    "images": (pooled("avg", 16, (6, 5), (3, 4)), NCHW16C),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_has_no_kernel_for_all_sizes_keeps_its_own(name):
    spec, layout = KEPT[name]
    if isinstance(spec, Pool2d):
        spec = dataclasses.replace(spec, batch=2)
    alike = Layouts(inputs=(layout,), output=layout)
    template = select(spec, TARGET)
    assert of_any_size(template, spec, alike, TARGET) == (template, spec, alike)
