"""Run CUDA templates on logical arrays: pack, schedule, emulate, unpack."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.layout import NCHW4C
from schedules.template import Arrays, Layouts, ScheduleTemplate
from tests.cuda.emulator import Emulator, cuda_source, launch_size
from tests.schedules.run_template import with_garbage

WANTED = Layouts(inputs=(NCHW4C, NCHW4C), output=NCHW4C)
SM_80 = Target({"kind": "cuda", "arch": "sm_80"}, host="llvm")


@dataclass(frozen=True, kw_only=True)
class Built:
    """Kernels by name, of one template, compiled for the CPU together."""

    template: ScheduleTemplate
    specs: Mapping[str, Any]
    mod: tvm.IRModule
    source: str
    emulator: Emulator

    def run(self, name: str, arrays: Arrays) -> np.ndarray:
        """Return y in logical shape; its inputs must be left alone."""
        spec = self.specs[name]
        layouts = self.template.layouts(spec, WANTED)
        memory = self._memory(spec, layouts, arrays)
        left = self.emulator.launch(f"{name}_kernel", launch_size(self.mod[name]), memory)
        for key in memory.keys() - {"y"}:
            np.testing.assert_array_equal(left[key], memory[key], err_msg=f"{key} was overwritten")
        channels = spec.shape("y")[1]
        if spec.y == "float32" and layouts.output == NCHW4C and channels % 4:
            tail = left["y"][:, -1, ..., channels % 4 :]
            np.testing.assert_array_equal(tail, 0, err_msg="lanes past the last channel")
        return layouts.output.unpack(left["y"], spec.shape("y"))

    def _memory(self, spec: Any, layouts: Layouts, arrays: Arrays) -> Arrays:
        """Return every argument as it lies in memory; y holds a mark."""
        packed = self.template.pack(spec, {name: arrays[name] for name in spec.params})
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True):
            packed[name] = with_garbage(layout, arrays[name])
        shape = layouts.output.physical_shape(spec.shape("y"))
        return packed | {"y": np.full(shape, 77).astype(spec.y)}


def schedule(
    template: ScheduleTemplate, spec: Any, target: Target = SM_80, seed: int | None = None
) -> tvm.tirx.PrimFunc:
    """Return the scheduled kernel; ``seed`` chooses a sample of the space, None the default."""
    assert template.refuses(spec, target) is None
    sch = Schedule(template.kernel(spec, template.layouts(spec, WANTED)), seed=seed or 1)
    (template.default if seed is None else template.space)(sch, spec, target)
    return sch.mod["main"]


def build(
    template: ScheduleTemplate,
    specs: Mapping[str, Any],
    target: Target = SM_80,
    seed: int | None = None,
    edit: Callable[[str], str] = str,
) -> Built:
    """Compile kernels for the CPU; ``edit`` may change the CUDA C first."""
    mod = tvm.IRModule(
        {
            name: schedule(template, spec, target, seed).with_attr("global_symbol", name)
            for name, spec in specs.items()
        }
    )
    source = edit(cuda_source(mod, target))
    return Built(template=template, specs=specs, mod=mod, source=source, emulator=Emulator(source))
