"""Dense layers with weights of int16 on a GPU: four elements of a row a thread.

    x               : (rows, k)       uint8 or int8, row major
    w               : (k, n)          int16
    bias, m, m_neg  : (n,)

Loops: see ``schedules.cuda.elementwise``.
Exact:  int32 sums of ``(x - z_x) * w``.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from tvm import te, tirx
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.arguments import constants
from schedules.bodies.epilogue import epilogue, type_refusal
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.elementwise import default, space
from schedules.layout import ROW
from schedules.spec import Dense
from schedules.template import Arrays, Layouts, ScheduleTemplate

NAME = "dense_wide_cuda"


def refuses(spec: Dense, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed on ``target``, or None."""
    if spec.x == "float32":
        return "x is float32"
    return refuses_cuda(target) or type_refusal(spec, weights="int16")


def kernel(spec: Dense, _layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    shapes = {
        **constants(spec, (spec.n,)),
        "x": ((spec.rows, spec.k), spec.x),
        "w": ((spec.k, spec.n), spec.constant_dtype("w")),
    }
    names = (*spec.tensors, *spec.params)
    tensors = {name: te.placeholder(*shapes[name], name) for name in names}
    k = te.reduce_axis((0, spec.k), "k")

    def _product(row: Expr, column: Expr) -> Expr:
        x = tensors["x"](row, k).astype("int32") - tensors["z"](0)
        return te.sum(x * tensors["w"](k, column).astype("int32"), k)

    acc = te.compute((spec.rows, spec.n), _product, name="row_sum")

    def _finished(row: Expr, column: Expr) -> Expr:
        def _load(name: str, element: int | None = None) -> Expr:
            return tensors[name](column) if element is None else tensors[name](element)

        return epilogue(spec, acc(row, column) + _load("bias"), _load)

    y = te.compute((spec.rows, spec.n), _finished, name=spec.kind, attrs={"template": NAME})
    func = te.create_prim_func([*tensors.values(), y], index_dtype_override="int64")
    return for_cuda(func.without_attr("global_symbol"))


def pack(spec: Dense, params: Arrays) -> Arrays:
    """Repack w (n, k) as (k, n)."""
    return {**params, "w": np.ascontiguousarray(params["w"].T)}


DENSE_WIDE_CUDA = ScheduleTemplate(
    name=NAME,
    kind="dense",
    refuses=refuses,
    layouts=lambda spec, wanted: Layouts(inputs=(ROW,), output=ROW),
    kernel=kernel,
    default=partial(default, NAME),
    space=partial(space, NAME),
    pack=pack,
)
