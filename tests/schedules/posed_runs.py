"""Run a kernel by default on the problem that the tuner poses it, and compare with the reference."""

import numpy as np
import tvm
from tvm.target import Target

from relay_int8.tuning.problem import problem
from schedules.layout import NCHW16C, ROW
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Conv2d, Dense
from schedules.template import Layouts
from tests.compiled import compiled


def assert_equals_reference(spec: Conv2d | Dense, target: Target) -> None:
    """Compare every byte, of which there are more than 15 values."""
    template = select(spec, target)
    layout = NCHW16C if isinstance(spec, Conv2d) else ROW
    wanted = Layouts(inputs=(layout,) * len(spec.tensors), output=layout)
    layouts = template.layouts(spec, wanted)
    kernel = Kernel(template=template, spec=spec, layouts=layouts, target=target)
    posed = problem(kernel)
    y = tvm.runtime.tensor(posed.canary)
    library = compiled(kernel.default().mod, target)
    library["main"](*(tvm.runtime.tensor(array) for array in posed.arguments), y)
    assert posed.fault(y.numpy()) is None
    assert np.unique(posed.expected).size > 15
