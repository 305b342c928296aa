"""Run CUDA templates on logical arrays: pack, schedule, emulate (as CUDA C or as PTX), unpack."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cuda.device.devices import compute_capability
from schedules.layout import NCHW4C
from schedules.selection import select
from schedules.template import Arrays, Layouts, ScheduleTemplate
from tests.cuda.emulator import Emulator, cuda_source
from tests.cuda.ptx.emulator import PtxEmulator
from tests.schedules.any_layout_runs import sizes
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import with_garbage

WANTED = Layouts(inputs=(NCHW4C, NCHW4C), output=NCHW4C)
SM_61 = Target({"kind": "cuda", "arch": "sm_61"}, host="llvm")
SM_80 = Target({"kind": "cuda", "arch": "sm_80"}, host="llvm")
"""dp4a alone, and both dp4a and tensor cores."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One kernel: ``template`` is the catalog's choice unless given."""

    spec: Any
    wanted: Layouts = WANTED
    template: ScheduleTemplate | None = None

    def choice(self, target: Target) -> ScheduleTemplate:
        if self.template is None:
            return select(self.spec, target)
        assert self.template.refuses(self.spec, target) is None
        return self.template


@dataclass(frozen=True, kw_only=True)
class Built:
    """Kernels by name, compiled for the CPU together."""

    cases: Mapping[str, Case]
    target: Target
    mod: tvm.IRModule
    source: str
    emulator: Emulator | PtxEmulator

    def run(self, name: str, arrays: Arrays) -> np.ndarray:
        """Return y in logical shape; its inputs must be left alone."""
        spec, template = self.cases[name].spec, self.cases[name].choice(self.target)
        layouts = template.layouts(spec, self.cases[name].wanted)
        before = memory_of(template, spec, layouts, arrays)
        *left, memory = self.emulator.launch(f"{name}_kernel", self.mod[name], before)
        for array, kept in zip(left, before, strict=False):
            np.testing.assert_array_equal(array, kept, err_msg="an input was overwritten")
        y = layouts.output.unpack(memory, sizes(spec, "y", batch_of(spec, arrays)))
        if spec.dtype("y") == "float32" and layouts.output.block:
            # Lanes past the last channel are zero.
            np.testing.assert_array_equal(memory, layouts.output.pack(y))
        return y


def assert_equal(built: Built, name: str, batch: int = 1) -> None:
    """Compare a convolution or a matrix product with NumPy, bit for bit, on random arrays."""
    spec = built.cases[name].spec
    arrays = random_arrays(spec, np.random.default_rng(1), batch)
    np.testing.assert_array_equal(built.run(name, arrays), reference(spec, arrays))


def batch_of(spec: Any, arrays: Arrays) -> int:
    """Return the outermost extent, which may be symbolic in ``spec``."""
    return int(np.atleast_1d(arrays[spec.tensors[0]]).shape[0])


def memory_of(
    template: ScheduleTemplate, spec: Any, layouts: Layouts, arrays: Arrays
) -> list[np.ndarray]:
    """Return every argument as it lies in memory; y holds a mark."""
    packed = template.pack(spec, {name: arrays[name] for name in spec.params})
    inputs = [
        with_garbage(layout, arrays[name])
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    shape = layouts.output.physical_shape(sizes(spec, "y", batch_of(spec, arrays)))
    y = np.full(shape, 77).astype(spec.dtype("y"))
    return [*inputs, *(packed[name] for name in spec.params), y]


def schedule(case: Case, target: Target, seed: int | None = None) -> tvm.tirx.PrimFunc:
    """Return the scheduled kernel; ``seed`` chooses a sample of the space, None the default."""
    template, spec = case.choice(target), case.spec
    sch = Schedule(template.kernel(spec, template.layouts(spec, case.wanted)), seed=seed or 1)
    (template.default if seed is None else template.space)(sch, spec, target)
    return template.finish(sch.mod["main"])


def build(
    cases: Mapping[str, Case],
    target: Target = SM_80,
    seed: int | None = None,
    edit: Callable[[str], str] = str,
) -> Built:
    """Compile kernels for the CPU; ``edit`` may change the CUDA C first."""
    mod = scheduled(cases, target, seed)
    source = edit(cuda_source(mod, target))
    emulator = Emulator(source, capability=compute_capability(target) or 0)
    return Built(cases=cases, target=target, mod=mod, source=source, emulator=emulator)


def scheduled(cases: Mapping[str, Case], target: Target, seed: int | None = None) -> tvm.IRModule:
    """Return the kernels as one module."""
    return tvm.IRModule(
        {
            name: schedule(case, target, seed).with_attr("global_symbol", name)
            for name, case in cases.items()
        }
    )


def build_ptx(cases: Mapping[str, Case], target: Target, seed: int | None = None) -> Built:
    """Compile kernels to PTX by NVIDIA's compiler."""
    mod = scheduled(cases, target, seed)
    source = cuda_source(mod, target)
    emulator = PtxEmulator(source, str(target.attrs["arch"]))
    return Built(cases=cases, target=target, mod=mod, source=source, emulator=emulator)
