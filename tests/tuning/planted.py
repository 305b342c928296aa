"""A catalog whose one template has a space full of traps: what each choice does stands below."""

import dataclasses
import os
import time

from tvm import te

from schedules.bodies.elementwise import any_layouts
from schedules.bodies.expressions import constants, placeholders
from schedules.catalog import TEMPLATES as REAL
from schedules.spec import Rescale, to_json
from schedules.task import Task
from schedules.template import ScheduleError

RIGHT, WRONG, CRASH, HANG, REFUSED, BROKEN, OVERRUN, ALSO_RIGHT = range(8)
SPEC = Rescale(dims=(1, 64), x="uint8", y="uint8")
TASK = Task(template="planted", spec=to_json(SPEC), layouts=("row", "row"))


def kernel(spec, layouts):
    x, c = placeholders(spec, layouts)["x"], constants(spec, z=2)
    acc = te.compute(x.shape, lambda *i: x[i].astype("int32") - c["z"][0], name="acc")

    def value(*i):
        t = te.round(acc[i].astype("float32") * c["m"][0])
        return (_clamped(t, c).astype("int32") + c["z"][1]).astype(spec.y)

    y = te.compute(x.shape, value, name="y", attrs={"template": "planted"})
    func = te.create_prim_func([x, *c.values(), y], index_dtype_override="int64")
    return func.without_attr("global_symbol")


def _clamped(t, c):
    low, high = c["clamp"][0], c["clamp"][1]
    return te.if_then_else(t < low, low, te.if_then_else(t > high, high, t))


def default(sch, spec, target):
    pass


def space(sch, spec, target):
    chosen = int(sch.get(sch.sample_categorical(list(range(8)), [1 / 8] * 8)))
    if chosen == WRONG:
        # Differences of 128 and more do not fit: nearly all outputs are still right.
        sch.unsafe_set_dtype("acc", 0, "int8")
    elif chosen == CRASH:
        os._exit(3)
    elif chosen == HANG:
        time.sleep(60)
    elif chosen == REFUSED:
        raise ScheduleError("no such tiles")
    elif chosen == BROKEN:
        raise RuntimeError("LLVM does not like it")
    elif chosen == OVERRUN:
        loop = sch.get_loops(sch.get_sblock("y"))[-1]
        sch.split(loop, [None, 1 << 32], disable_predication=True)


TEMPLATES = {
    **REAL,
    "planted": dataclasses.replace(
        REAL["rescale_cpu"],
        name="planted",
        kernel=kernel,
        layouts=any_layouts,
        default=default,
        space=space,
    ),
}
