"""One kernel for aarch64: its assembly, and its integers under qemu."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleTemplate
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import WANTED

ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}
TARGET = Target({**ARM, "mattr": ["+v8.2a", "+dotprod", "+i8mm"]})


def _scheduled(template: ScheduleTemplate, spec: Conv2d | Dense) -> Schedule:
    sch = Schedule(template.kernel(spec, template.layouts(spec, WANTED)))
    template.default(sch, spec, TARGET)
    return sch


def _network(
    template: ScheduleTemplate, spec: Conv2d | Dense, arrays: dict[str, np.ndarray]
) -> Any:
    """Return a module whose main is the kernel alone, as the emulator wants it."""
    layouts = template.layouts(spec, WANTED)
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(name, relax.TensorType(layout.physical_shape(spec.shape(name)), spec.dtype(name)))
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    packed = template.pack(spec, {name: arrays[name] for name in spec.params})
    with builder.function("main", inputs):
        kernel = builder.add_func(
            template.finish(_scheduled(template, spec).mod["main"]), template.name
        )
        constants = [relax.const(packed[name]) for name in spec.params]
        out = relax.TensorType(layouts.output.physical_shape(spec.shape("y")), spec.y)
        with builder.dataflow():
            y = builder.emit_output(relax.call_tir(kernel, [*inputs, *constants], out_ty=out))
        builder.emit_func_output(y)
    return SimpleNamespace(executable=tvm.compile(builder.get(), target=TARGET))


def assert_integers(template: ScheduleTemplate, spec: Conv2d | Dense, emulator: Any) -> None:
    """Compare what the kernel computes on random integers with NumPy."""
    assert template.refuses(spec, TARGET) is None
    arrays = random_arrays(spec, np.random.default_rng(1))
    layouts = template.layouts(spec, WANTED)
    inputs = [
        layout.pack(arrays[name]) for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    (y,) = emulator.run(_network(template, spec, arrays), inputs)
    np.testing.assert_array_equal(
        layouts.output.unpack(y, spec.shape("y")), reference(spec, arrays)
    )


def assembly(template: ScheduleTemplate, spec: Conv2d | Dense) -> str:
    """Return what LLVM makes of the kernel."""
    main = template.finish(_scheduled(template, spec).mod["main"])
    mod = tvm.IRModule({"main": main.with_attr("global_symbol", "main")})
    text: str = tvm.compile(mod, target=TARGET).mod.inspect_source("asm")
    return text
