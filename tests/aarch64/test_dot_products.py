"""sdot and usdot: the kernels' instructions, and their integers under qemu."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.arm.sdot import CONV2D_SDOT, CONV2D_STEM_SDOT, DENSE_SDOT
from schedules.arm.usdot import CONV2D_STEM_USDOT, CONV2D_USDOT, DENSE_USDOT
from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleTemplate
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import WANTED

ARM = {"kind": "llvm", "mtriple": "aarch64-linux-gnu"}
TARGET = Target({**ARM, "mattr": ["+v8.2a", "+dotprod", "+i8mm"]})
CONV: dict[str, Any] = {
    "batch": 1,
    "in_channels": 20,
    "height": 7,
    "width": 9,
    "out_channels": 32,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
}
STEM = {**CONV, "in_channels": 3, "strides": (2, 2)}
DENSE = {"rows": 2, "n": 20, "k": 30}
KERNELS = {
    "conv2d_sdot": (CONV2D_SDOT, Conv2d(**CONV, x="int8", y="int8")),
    "conv2d_usdot": (CONV2D_USDOT, Conv2d(**CONV, x="uint8", y="uint8", residual="int8")),
    "conv2d_stem_sdot": (CONV2D_STEM_SDOT, Conv2d(**STEM, x="int8", y="int8")),
    "conv2d_stem_usdot": (CONV2D_STEM_USDOT, Conv2d(**STEM, x="uint8", y="uint8")),
    "dense_sdot": (DENSE_SDOT, Dense(**DENSE, x="int8", y="int8")),
    "dense_usdot": (DENSE_USDOT, Dense(**DENSE, x="uint8", y="float32")),
}


def scheduled(template: ScheduleTemplate, spec: Conv2d | Dense) -> Schedule:
    sch = Schedule(template.kernel(spec, template.layouts(spec, WANTED)))
    template.default(sch, spec, TARGET)
    return sch


def network(template: ScheduleTemplate, spec: Conv2d | Dense, arrays: dict[str, np.ndarray]) -> Any:
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
            template.finish(scheduled(template, spec).mod["main"]), template.name
        )
        constants = [relax.const(packed[name]) for name in spec.params]
        out = relax.TensorType(layouts.output.physical_shape(spec.shape("y")), spec.y)
        with builder.dataflow():
            y = builder.emit_output(relax.call_tir(kernel, [*inputs, *constants], out_ty=out))
        builder.emit_func_output(y)
    return SimpleNamespace(executable=tvm.compile(builder.get(), target=TARGET))


@pytest.mark.parametrize("name", KERNELS)
def test_integers(name, emulator):
    template, spec = KERNELS[name]
    assert template.refuses(spec, TARGET) is None
    arrays = random_arrays(spec, np.random.default_rng(1))
    layouts = template.layouts(spec, WANTED)
    inputs = [
        layout.pack(arrays[name]) for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    (y,) = emulator.run(network(template, spec, arrays), inputs)
    np.testing.assert_array_equal(
        layouts.output.unpack(y, spec.shape("y")), reference(spec, arrays)
    )


@pytest.mark.fast
@pytest.mark.parametrize("name", KERNELS)
def test_instruction(name):
    template, spec = KERNELS[name]
    mod = tvm.IRModule(
        {
            "main": template.finish(scheduled(template, spec).mod["main"]).with_attr(
                "global_symbol", "main"
            )
        }
    )
    assembly = tvm.compile(mod, target=TARGET).mod.inspect_source("asm")
    assert f"\t{template.name.rpartition('_')[2]}\t" in assembly


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("conv2d_sdot", "target cpu generic lacks dotprod"),
        ("conv2d_usdot", "target cpu generic lacks i8mm"),
    ],
)
def test_refuses_older_cpus(name, reason):
    template, spec = KERNELS[name]
    assert template.refuses(spec, Target(ARM)) == reason
