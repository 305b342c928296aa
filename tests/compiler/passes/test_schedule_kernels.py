"""ScheduleKernels: kernels of templates get a schedule, tuned where a record says how."""

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.target import Target

from relay_int8.compiler.passes.lower.alter_layout import AlterLayout
from relay_int8.compiler.passes.lower.schedule_kernels import ScheduleKernels
from relay_int8.graph.attributes import LAYOUTS, SPEC, TEMPLATE, TUNED
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call
from schedules.spec import Rescale, from_json
from schedules.targets import TARGETS

pytestmark = pytest.mark.fast
TARGET = Target(TARGETS["x86-vnni"])


@pytest.fixture
def packed() -> tvm.IRModule:
    """Return a kernel of a template, and one of no template."""
    params = {
        "m": np.array([0.5], "float32"),
        "z": np.array([3, 5], "int32"),
        "clamp": np.array([-5, 250], "float32"),
    }
    writer = FunctionWriter()
    x = relax.Var("x", relax.TensorType((2, 70), "uint8"))
    y = writer.emit("y", kernel_call(Rescale(dims=(2, 70), x="uint8", y="uint8"), [x], params))
    mod = AlterLayout(TARGET)(writer.finish([x], [y]))
    te = tvm.te
    a = te.placeholder((4,), "int8", name="a")
    mod["plain"] = te.create_prim_func([a, te.compute((4,), lambda i: a[i] + a[i])])
    return mod


def kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {
        gvar.name_hint: func
        for gvar, func in mod.functions_items()
        if isinstance(func, tirx.PrimFunc)
    }


class Records:
    """Tuning records that answer every kernel alike, and note what they were asked."""

    def __init__(self, is_known: bool) -> None:
        self.is_known = is_known
        self.asked: list[str] = []

    def schedule(self, task, kernel):
        self.asked.append(task.template)
        return kernel.default() if self.is_known else None

    def seconds(self, template, spec):
        return None


@pytest.mark.parametrize(
    ("records", "tuned"), [(None, False), (Records(False), False), (Records(True), True)]
)
def test_kernels_of_templates_are_scheduled(packed, records, tuned):
    original = packed.clone()
    after = kernels(ScheduleKernels(TARGET, records)(packed))
    tvm.ir.assert_structural_equal(packed, original)
    before = kernels(packed)
    assert after.keys() == before.keys()
    (name,) = set(after) - {"plain"}
    kernel = after[name]
    assert bool(kernel.attrs["tirx.is_scheduled"]) and bool(kernel.attrs[TUNED]) == tuned
    for attribute in (TEMPLATE, SPEC, LAYOUTS):
        assert kernel.attrs[attribute] == before[name].attrs[attribute]
    assert "global_symbol" not in kernel.attrs
    assert isinstance(from_json(str(kernel.attrs[SPEC])), Rescale)
    assert kernel.body.script() != before[name].body.script()
    if records:
        assert records.asked == [str(kernel.attrs[TEMPLATE])]


def test_other_functions_stay(packed):
    after = ScheduleKernels(TARGET)(packed)
    for name in ("plain", "main"):
        tvm.ir.assert_structural_equal(after[name], packed[name])
