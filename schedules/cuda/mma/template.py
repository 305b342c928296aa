"""Templates of tensor cores, made from the matrix product that a kernel computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.arguments import constants, fold_zero_point
from schedules.bodies.epilogue import type_refusal
from schedules.cuda.device.devices import refuses_mma
from schedules.cuda.device.limits import most_shared_bytes
from schedules.cuda.mma.estimate import default_tiles
from schedules.cuda.mma.gemm import apply, gemm_kernel
from schedules.cuda.mma.operands import Gemm, Index
from schedules.cuda.mma.sources import FILL
from schedules.cuda.mma.thread import VECTOR_WORDS
from schedules.cuda.mma.tiles import CHUNK, sampled
from schedules.cuda.mma.weights import BLOCK, SLAB_BYTES, pack_channels, pack_weights
from schedules.layout import Layout
from schedules.spec import PER_CHANNEL
from schedules.template import Arrays, Layouts, ScheduleTemplate


def mma_template(
    name: str,
    kind: str,
    gemm: Callable[[Any], Gemm],
    refuses: Callable[[Any], str | None],
    layout: Layout,
) -> ScheduleTemplate:
    """Return the template of one kind of kernel.

    Parameters
    ----------
    name, kind
        Of the template.
    gemm
        Spec -> the product that it is.
    refuses
        Spec -> why its shape cannot be such a product, or None.
    layout
        The only one that x, r and y have.
    """

    def _default(sch: Schedule, spec: Any, target: Target) -> None:
        product = gemm(spec)
        apply(sch, spec, product, default_tiles(product, target))

    def _space(sch: Schedule, spec: Any, target: Target) -> None:
        product = gemm(spec)
        most_bytes = most_shared_bytes(target)
        apply(sch, spec, product, sampled(sch, product.rows, product.blocks, most_bytes))

    def _kernel(spec: Any, _layouts: Layouts) -> tirx.PrimFunc:
        return gemm_kernel(spec, gemm(spec))

    return ScheduleTemplate(
        name=name,
        kind=kind,
        refuses=lambda spec, target: (
            refuses_mma(spec.x, target) or type_refusal(spec) or refuses(spec)
        ),
        layouts=lambda spec, _wanted: Layouts(inputs=(layout,) * len(spec.tensors), output=layout),
        kernel=_kernel,
        default=_default,
        space=_space,
        pack=_pack,
    )


def gemm_buffers(
    spec: Any, layout: Layout, blocks: int, slabs: int
) -> dict[str, tuple[Index, str]]:
    """Return shape and type of each argument; ``blocks`` are those of all groups."""
    known: dict[str, tuple[Index, str]] = {
        **constants(spec, (blocks, BLOCK)),
        "w": ((blocks, slabs, SLAB_BYTES), "int8"),
        "z": ((FILL + 2 * VECTOR_WORDS,), "int32"),
    }
    for name in (*spec.tensors, "y"):
        known[name] = (layout.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params, "y")
    return {name: known[name] for name in names}


def _pack(spec: Any, params: Arrays) -> Arrays:
    """Put the weights in the order of the threads; fold the zero point of x into the bias.

    Behind the zero points is what copies read in place of a border of x, and of weights that there
    are none of.
    """
    packed = {
        name: pack_channels(value) if name in PER_CHANNEL else value
        for name, value in fold_zero_point(spec, params).items()
    }
    z = np.asarray(params["z"], np.int32)
    border = np.full(CHUNK, z[0] & 0xFF, np.uint8).view(np.int32)
    fills = np.concatenate([border, np.zeros_like(border)])
    return {
        **packed,
        "w": pack_weights(np.asarray(params["w"])),
        "z": np.concatenate([np.pad(z, (0, FILL - len(z))), fills]),
    }
