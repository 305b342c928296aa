"""Run a layout-flexible template on random data and compare it with the NumPy reference.

Lanes past the last channel of integer inputs hold garbage, those of float32 inputs zero.
"""

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.layout import ROW, Layout
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Spec
from schedules.targets import native_target
from schedules.template import Arrays, Layouts
from tests.compiled import compiled

NATIVE = native_target()


def random_values(shape, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max + 1, shape, dtype=dtype)


def random_tensors(spec: Spec, batch: int = 2) -> Arrays:
    """Return logical activations; a symbolic size becomes ``batch``."""
    return {
        name: random_values(sizes(spec, name, batch), spec.dtype(name), seed)
        for seed, name in enumerate(spec.tensors)
    }


def sizes(spec: Spec, name: str, batch: int = 2) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else batch for size in spec.shape(name))


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def build(spec: Spec, wanted: Layouts, target: Target = NATIVE, searched: bool = False):
    """Return the compiled kernel and its layouts."""
    template = select(spec, target)
    layouts = template.layouts(spec, wanted)
    func = template.kernel(spec, layouts).with_attr("global_symbol", "main")
    sch = Schedule(tvm.IRModule({"main": func}), seed=1)
    (template.space if searched else template.default)(sch, spec, target)
    return compiled(tvm.IRModule({"main": template.finish(sch.mod["main"])}), target), layouts


def in_memory(array: np.ndarray, layout: Layout) -> np.ndarray:
    """Return ``array`` in ``layout``, integer lanes past the last channel filled with garbage."""
    packed = layout.pack(array)
    if not layout.block or array.dtype == np.float32:
        return packed
    lanes = layout.pack(np.ones(array.shape, bool))
    return np.where(lanes, packed, random_values(packed.shape, str(array.dtype), 99))


def run(built, spec: Spec, layouts: Layouts, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y as it lies in memory."""
    inputs = [
        in_memory(tensors[n], layout)
        for n, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    batch = np.atleast_1d(tensors[spec.tensors[0]]).shape[0]
    shape = layouts.output.physical_shape(sizes(spec, "y", batch))
    y = tvm.runtime.tensor(np.full(shape, 77, spec.dtype("y")))
    constants = [params[name] for name in spec.params]
    built["main"](*(tvm.runtime.tensor(a) for a in (*inputs, *constants)), y)
    return y.numpy()


def check(
    spec: Spec,
    params: Arrays,
    layout: Layout | tuple[Layout, ...] = ROW,
    output: Layout | None = None,
    target: Target = NATIVE,
    tensors: Arrays | None = None,
    searched: bool = False,
) -> np.ndarray:
    """Compare a kernel with the reference, bit for bit; return y in logical layout."""
    inputs = layout if isinstance(layout, tuple) else (layout,) * len(spec.tensors)
    built, layouts = build(
        spec, Layouts(inputs=inputs, output=output or inputs[0]), target, searched
    )
    tensors = tensors or random_tensors(spec)
    memory = run(built, spec, layouts, tensors, params)
    expected = reference(spec, tensors, params)
    y = layouts.output.unpack(memory, expected.shape)
    assert y.dtype == expected.dtype
    np.testing.assert_array_equal(y, expected)
    if layouts.output.block and y.dtype == np.float32:
        np.testing.assert_array_equal(memory, layouts.output.pack(y))
    return y
