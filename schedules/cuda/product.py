"""Products of two activations on a GPU: an element of y for a thread.

    a, b, y : as they lie in memory, see ``schedules.spec.product``

Loops:  blockIdx.x threadIdx.x over batch, head, row, column; see ``schedules.cuda.dot_rows``.
Exact:  integers always; float32 sums ascend over k.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import declare_operator, whole
from schedules.bodies.expressions import clamp, requantize
from schedules.bodies.matrices import (
    outer_count,
    product_refusal,
)
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.dot_rows import Line, dot, grid, matrix_of
from schedules.spec import Product

NAME = "product_cuda"
THREADS = 256


def kernel(spec: Product) -> tirx.PrimFunc:
    """Return the PrimFunc; there is nothing left to schedule."""
    with prim_func() as builder:
        buffers = declare_operator(spec, {"z": 3, "clamp": 2})
        with T.sblock("root"):
            _emit(spec, buffers)
    return for_cuda(builder.get())


def _emit(spec: Product, buffers: dict[str, Any]) -> None:
    """Emit the loops over all elements of y."""
    outer, inside = outer_count(spec), spec.rows * spec.columns
    total = outer * inside
    with grid((total + THREADS - 1) // THREADS, THREADS) as (block, thread), T.sblock(NAME):
        position = block * THREADS + thread
        (t,) = axes("t", [total], [position])
        T.where(position < total)
        read = [buffers[name] for name in (*spec.tensors, *spec.params)]
        T.reads(*map(whole, read))
        T.writes(whole(buffers["y"]))
        T.sblock_attr({"template": NAME})
        _element(spec, buffers, t // inside, t // spec.columns % spec.rows, t % spec.columns)


def _element(spec: Product, buffers: dict[str, Any], outer: Expr, row: Expr, column: Expr) -> None:
    a, b = (matrix_of(spec, buffers, name) for name in ("a", "b"))
    y = matrix_of(spec, buffers, "y")
    integer = spec.a != "float32"
    zeros = [buffers["z"][i] if integer else tirx.const(0, "int32") for i in range(3)]
    left, right = (
        Line(buffer=matrix.flat(), step=matrix.strides[4], z=z)
        for matrix, z in ((a, zeros[0]), (b, zeros[1]))
    )
    a_start = a.start(outer) + row * a.strides[3]
    b_start = b.start(outer) + column * b.strides[3]
    acc = dot(left, a_start, right, b_start, spec.depth)
    bounds = (buffers["clamp"][0], buffers["clamp"][1])
    if integer:
        factors = [buffers[name][0] for name in spec.scaled_by("m")]
        value = requantize(spec, acc, factors, zeros[2], bounds)
    else:
        value = clamp(acc, bounds)
    position = y.start(outer) + row * y.strides[3] + column * y.strides[4]
    T.buffer_store(y.flat(), value, [position])


def refuses(spec: Product, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_cuda(target) or product_refusal(spec)


PRODUCT_CUDA = row_major_template("product", NAME, refuses, kernel)
