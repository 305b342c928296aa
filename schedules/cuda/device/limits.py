"""What a block may take of a multiprocessor, checked on loops before any compiler sees them."""

from __future__ import annotations

import math

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, Schedule, transform
from tvm.target import Target

from schedules.cuda.device.gpus import GPUS, KIB, capability, gpu_of

MAX_THREADS = 1024  # of a block, on every GPU
MOST_BLOCKS = {"blockIdx.x": 2**31 - 1, "blockIdx.y": 65535, "blockIdx.z": 65535}  # of a grid
REGISTERS, THREAD_REGISTERS = 65536, 255  # of 32 bits: of a block and of a thread, on every GPU
STATIC_BYTES = 48 * 1024  # of shared memory of a block that a kernel declares
STATIC, DYNAMIC, LOCAL = "shared", "shared.dyn", "local"
WORD_BYTES = 4  # of a register


def exceeded(sch: Schedule, target: Target) -> str | None:
    """Say which limit of the GPU the scheduled function "main" exceeds, or None.

    Of registers only those are counted that hold a thread's arrays: where these alone are too many,
    they are certain to spill. What else the assembler spills is in its log.
    """
    if target.kind.name != "cuda":
        return None
    threads, shared, words = _use(_lowered(sch, target))
    reason = too_many_threads(threads) or too_many_registers(words, threads)
    if reason:
        return reason
    arch = str(target.attrs.get("arch", ""))
    limits = {STATIC: STATIC_BYTES, DYNAMIC: gpu_of(arch).block_kib * KIB}
    for scope, limit in limits.items():
        if shared[scope] > limit:
            return f"{shared[scope]} bytes of {scope} memory in a block, {arch} has {limit} at most"
    return None


def most_shared_bytes(target: Target) -> int:
    """Return the bytes of a block that every GPU grants which runs code for ``target``.

    More than ``STATIC_BYTES`` of them are memory that a launch asks for.
    """
    oldest = capability(str(target.attrs.get("arch", "")))
    return KIB * min(gpu.block_kib for number, gpu in GPUS.items() if number >= oldest)


def asked_shared_bytes(func: tirx.PrimFunc) -> int:
    """Return the bytes of shared memory that a launch of a scheduled function asks for."""
    asked = 0

    def _note(block: SBlock) -> None:
        nonlocal asked
        asked += sum(_bytes(one) for one in block.alloc_buffers if one.scope() == DYNAMIC)

    tvm_ffi.structural_walk(func.body, (SBlock, _note))
    return asked


def too_many_threads(threads: int) -> str | None:
    """Say that a block has more threads than a GPU runs, or None."""
    if threads > MAX_THREADS:
        return f"{threads} threads in a block, a GPU runs {MAX_THREADS} at most"
    return None


def unlaunchable(axis: str, extent: int) -> str | None:
    """Say why no GPU launches a grid or block with this extent of ``axis``, or None.

    ``axis`` is as in "blockIdx.y".
    """
    most = MOST_BLOCKS.get(axis, MAX_THREADS)
    if 1 <= extent <= most:
        return None
    return f"its {axis} goes to {extent}, and GPUs launch 1 to {most}"


def too_many_registers(words: int, threads: int) -> str | None:
    """Say that ``words`` of 32 bits for each thread of a block cannot be in registers, or None."""
    registers = min(THREAD_REGISTERS, REGISTERS // max(1, threads))
    if words > registers:
        return (
            f"{words} registers for the arrays of each of {threads} threads, a GPU has "
            f"{registers} at most"
        )
    return None


def _lowered(sch: Schedule, target: Target) -> tirx.PrimFunc:
    """Return the function as TVM has it once buffers have their size and share their space."""
    func = sch.mod["main"].with_attr("global_symbol", "main")
    passes = (
        transform.CanonicalizeLoop(),
        transform.LowerCrossThreadReduction(),
        transform.LowerInitBlock(),
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.LiftThreadBinding(),
        transform.CompactBufferAllocation(),
        transform.UnifyThreadBinding(),
        transform.LowerMatchBuffer(),
        transform.StmtSimplify(),
        transform.InjectSoftwarePipeline(),
        transform.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.NarrowDataType(32),
        tirx.transform.VectorizeLoop(),
        transform.InjectVirtualThread(),
        tirx.transform.StorageRewrite(),
    )
    with target:
        return tvm.transform.Sequential(passes)(tvm.IRModule({"main": func}))["main"]


def _use(func: tirx.PrimFunc) -> tuple[int, dict[str, int], int]:
    """Return a block's threads, its bytes of each kind of shared memory, a thread's local words."""
    extents: dict[str, int] = {}
    used = {STATIC: 0, DYNAMIC: 0, LOCAL: 0}

    def _note_extent(attribute: tirx.AttrStmt) -> None:
        if attribute.attr_key == "thread_extent":
            tag = str(attribute.node.thread_tag)
            if tag.startswith("threadIdx"):
                extents[tag] = max(int(attribute.value), extents.get(tag, 1))

    def _note_buffer(allocation: tirx.AllocBuffer) -> None:
        buffer = allocation.buffer
        if buffer.scope() in used:
            used[buffer.scope()] += _bytes(buffer)

    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, _note_extent))
    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, _note_buffer))
    return math.prod(extents.values()), used, used[LOCAL] // WORD_BYTES


def _bytes(buffer: tirx.Buffer) -> int:
    dtype = tvm.DataType(buffer.dtype)
    elements = math.prod(int(extent) for extent in buffer.shape)
    return elements * int(dtype.bits) * int(dtype.lanes) // 8
