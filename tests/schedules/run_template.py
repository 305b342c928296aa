"""Run a template on logical arrays: pack, schedule, compile, call, unpack."""

import functools
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.layout import NCHW16C, ROW
from schedules.spec import Attention, Conv2d, Dense, Product
from schedules.template import Layouts, ScheduleTemplate
from tests.compiled import CompiledKernels, compiled

WANTED = Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C)


def run_template(
    template: ScheduleTemplate,
    spec: Conv2d | Dense | Product | Attention,
    target: Target,
    arrays: dict[str, np.ndarray],
    seed: int | None = None,
) -> np.ndarray:
    """Return y in logical shape; ``seed`` chooses a sample of the space, None the default."""
    layouts = template.layouts(spec, WANTED)
    run = _built(template, spec, str(target), seed)
    batch = len(arrays[spec.tensors[0]])
    shape = [size if isinstance(size, int) else batch for size in spec.shape("y")]
    y = np.full(layouts.output.physical_shape(shape), 77).astype(spec.y)
    params = template.pack(spec, {name: arrays[name] for name in spec.params})
    inputs = [
        with_garbage(layout, arrays[name])
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    args = [tvm.runtime.tensor(a) for a in (*inputs, *(params[name] for name in spec.params), y)]
    run["main"](*args)
    result = args[-1].numpy()
    if spec.y == "float32" and layouts.output == NCHW16C and shape[1] % 16:
        assert not result[:, -1, ..., shape[1] % 16 :].any(), "lanes past the last channel"
    return layouts.output.unpack(result, shape)


@functools.lru_cache(maxsize=4)  # tests run a kernel on several arrays, one after the other
def _built(
    template: ScheduleTemplate, spec: Any, target_text: str, seed: int | None
) -> CompiledKernels:
    target = Target(target_text)
    assert template.refuses(spec, target) is None
    func = template.kernel(spec, template.layouts(spec, WANTED))
    sch = Schedule(func.with_attr("global_symbol", "main"), seed=seed or 1)
    if seed is None:
        template.default(sch, spec, target)
    else:
        template.space(sch, spec, target)
    return compiled(tvm.IRModule({"main": template.finish(sch.mod["main"])}), target)


def with_garbage(layout, array: np.ndarray) -> np.ndarray:
    """Pack an activation; integer lanes past the last channel are not zero, as the contract has it."""
    packed = layout.pack(array)
    if layout == ROW or not layout.block or array.dtype == np.float32:
        return packed
    lanes = array.shape[1] % layout.block
    if lanes:
        packed[:, -1, ..., lanes:] = 99
    return packed
