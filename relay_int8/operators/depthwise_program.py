"""Exact depthwise convolutions of whole numbers, compiled: NumPy passes over memory for each tap.

Sums of whole numbers below 2^24 are exact in any order and with fused additions, so that the bits
are those that NumPy gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule

from relay_int8.operators.images import Pair, extents_read
from relay_int8.operators.operator import Array
from schedules.targets import native_target

MOST_TAPS = 49  # 7 x 7: a kernel spells its taps out
LEAST_PRODUCTS = 2**16  # of an image: of a smaller one compiling takes longer than a search saves
WIDEST_VECTOR = 32  # floats of a row that become one vector; wider rows are left to LLVM

_COMPILING = Lock()


def pays(fields: Mapping[str, Any], out_size: Pair) -> bool:
    """Say whether a layer is depthwise, one result a channel, and worth its compilation."""
    channels, taps = fields["in_channels"], math.prod(fields["kernel"])
    if not fields["groups"] == channels == fields["out_channels"] or taps > MOST_TAPS:
        return False
    return bool(channels * math.prod(out_size) * taps >= LEAST_PRODUCTS)


def depthwise_products(x: Array, w: Array, fields: Mapping[str, Any], out_size: Pair) -> Array:
    """Return float32 (n, c, oh, ow), exact.

    Parameters
    ----------
    x, w
        (n, c, h, w) and (c, 1, kh, kw), whole numbers in float32 whose sums stay below 2^24.
    fields
        As ``Conv2d.fields`` gives them.
    out_size
        (oh, ow).
    """
    n, channels, height, width = x.shape
    kernel, strides, dilation = fields["kernel"], fields["strides"], fields["dilation"]
    above, left = fields["padding"][:2]
    read = extents_read(fields, out_size)
    padded = tvm.runtime.empty((n, channels, *read), "float32")
    pixels = np.from_dlpack(padded)
    pixels[:] = 0
    inside = pixels[:, :, above : above + height, left : left + width]
    inside[:] = x[:, :, : inside.shape[2], : inside.shape[3]]
    weights = tvm.runtime.tensor(np.ascontiguousarray(w[:, 0], np.float32))
    y = tvm.runtime.empty((n, channels, *out_size), "float32")
    with _COMPILING:
        program = _program(channels, read, kernel, strides, dilation, out_size)
    program(padded, weights, y)
    result: Array = np.from_dlpack(y)
    return result


@lru_cache(maxsize=128)
def _program(
    channels: int, read: Pair, kernel: Pair, strides: Pair, dilation: Pair, out_size: Pair
) -> Callable[..., None]:
    """Return what computes any number of images, padded to ``read``."""
    images = tirx.Var("n", "int64")
    x = te.placeholder((images, channels, *read), "float32", name="x")
    w = te.placeholder((channels, *kernel), "float32", name="w")

    def _sum(n: tirx.Var, c: tirx.Var, row: tirx.Var, column: tirx.Var) -> tirx.PrimExpr:
        products = [
            x[n, c, row * strides[0] + i * dilation[0], column * strides[1] + j * dilation[1]]
            * w[c, i, j]
            for i, j in np.ndindex(*kernel)
        ]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return total

    y = te.compute((images, channels, *out_size), _sum, name="y")
    func = te.create_prim_func([x, w, y]).with_attr("global_symbol", "main")
    sch = Schedule(tvm.IRModule({"main": func}))
    if strides[1] == 1 and out_size[1] <= WIDEST_VECTOR:
        sch.vectorize(sch.get_loops(sch.get_sblock("y"))[-1])
    program: Callable[..., None] = tvm.compile(sch.mod, target=native_target())["main"]
    return program
