"""The kernel that convolution and dense share on tensor cores: a product of pixels and channels.

    y[m, oc] = epilogue(bias[oc] + sum over slabs s, bytes b  x[m, s, b] * w[oc, s, b])

m counts pixels of all images, oc output channels, s slabs: 32 input channels of one tap of the
window, 32 contiguous bytes of x. One loop nest, by ``MmaTiles``:

    blockIdx.z     images       one, where the batch is static: then m counts it
    blockIdx.y     groups, blocks of channels
    blockIdx.x     pixels
    threadIdx.y    warps along pixels, channels, slabs
    threadIdx.x    lanes
      slabs of one fetch:
        wait for the fetch, barrier
        begin the fetch ``stages - 1`` ahead        16 bytes a thread, asynchronous on sm_80
        slabs, 16 pixels, 32 channels of a warp:
          w, x: shared -> registers                 16 bytes a thread, x by ldmatrix
          four mma                                  16 pixels x 8 channels x 32 bytes each
      sums of warps that shared the slabs meet in shared memory
      requantize, write                             8 channels of a pixel a thread

A pixel has 32 bytes of shared memory, in two halves, of which ldmatrix reads those of eight pixels
at a time. Of every second four pixels the halves are the other way round: so eight are 128 bytes
of different banks. Shared memory is one array of bytes that TVM does not see: barriers are written
here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import allocate, declare_arguments
from schedules.bodies.prim_func import prim_func
from schedules.cuda.device.limits import DYNAMIC, STATIC_BYTES
from schedules.cuda.device_math import for_cuda
from schedules.cuda.mma.operands import Gemm
from schedules.cuda.mma.sums import join, sum_slabs
from schedules.cuda.mma.thread import Thread
from schedules.cuda.mma.tiles import SMALLEST_TILES, WARP, MmaTiles
from schedules.cuda.mma.write import Writer
from schedules.cuda.statements import call, where
from schedules.spec import Conv2d, Dense


def gemm_kernel(
    spec: Conv2d | Dense, gemm: Gemm, tiles: MmaTiles = SMALLEST_TILES
) -> tirx.PrimFunc:
    """Return the PrimFunc with ``tiles``."""
    with prim_func() as builder:
        buffers = declare_arguments(gemm.buffers)
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"template": gemm.template})
            with _grid(gemm, tiles) as (image, *loops):
                # 32 bits are enough, and half of the instructions.
                column, tile, warp, lane = (tirx.Cast("int32", loop) for loop in loops)
                staged = T.bind(_shared_memory(tiles.shared_bytes))
                IRBuilder.name("staged", staged)
                thread = Thread(
                    spec=spec,
                    gemm=gemm,
                    tiles=tiles,
                    buffers=buffers,
                    staged=staged,
                    image=image,
                    column=column,
                    tile=tile,
                    warp=warp,
                    lane=lane,
                )
                acc = sum_slabs(thread)
                join(thread, acc)
                with where([thread.warp_slab < 1] if tiles.warp_slabs > 1 else []):
                    Writer.of(thread, acc).write()
    return for_cuda(builder.get())


def _shared_memory(size: int) -> Any:
    """Return the address of ``size`` bytes of shared memory; those of many a launch asks for."""
    if size <= STATIC_BYTES:
        return call(f"shared_bytes<{size}>", dtype="handle")
    memory = allocate("asked", (size,), "uint8", DYNAMIC)
    return memory.data


@contextmanager
def _grid(gemm: Gemm, tiles: MmaTiles) -> Iterator[list[Any]]:
    """Open the loops of the grid."""
    columns = gemm.groups * -(-gemm.blocks // tiles.channel_blocks)
    loops = (
        ("blockIdx.z", "image", gemm.images),
        ("blockIdx.y", "column", columns),
        ("blockIdx.x", "tile", -(-gemm.rows // tiles.pixels)),
        ("threadIdx.y", "warp", tiles.warps),
        ("threadIdx.x", "lane", WARP),
    )
    with _bound(loops) as variables:
        yield variables


@contextmanager
def _bound(loops: Sequence[tuple[str, str, Any]]) -> Iterator[list[Any]]:
    """Open loops of the grid; what they hold is unrolled by CUDA's compiler, not by TVM."""
    (axis, name, extent), *inner = loops
    whole = int64([extent])[0]
    unroll = {"pragma_unroll_explicit": 0}
    with T.thread_binding(T.int64(0), whole, axis, annotations=unroll) as loop:
        IRBuilder.name(name, loop)
        if not inner:
            yield [loop]
            return
        with _bound(inner) as rest:
            yield [loop, *rest]


def apply(sch: Schedule, spec: Conv2d | Dense, gemm: Gemm, tiles: MmaTiles) -> None:
    """Put the kernel with ``tiles`` in the place of the one that ``sch`` has."""
    tiled, present = gemm_kernel(spec, gemm, tiles), sch.mod["main"]
    params = dict(zip(tiled.params, present.params, strict=True))
    body = tvm_ffi.structural_map(tiled.body, (ir.Var, lambda var: params.get(var, var)))
    sch.state.replace(sch.get_sref(sch.get_sblock("root")), body.block)
