"""Refuse a module for a GPU of which a kernel could not be launched.

Place:  last of the kernel passes, on GPUs; loops are bound to blocks and threads by then.
Exact:  changes nothing.

A GPU runs 1024 threads a block at most, and 65535 blocks along the second and third axis of a
grid. CUDA says only "invalid argument" when a kernel with more is launched, in the first run.
Extents that follow an open batch are not known here.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, tirx

from relay_int8.errors import UnsupportedOpError
from schedules.cuda.device.limits import unlaunchable


@tvm.transform.module_pass(opt_level=0, name="CheckLaunches")
class CheckLaunches:
    """Refuse a module for a GPU of which a kernel could not be launched."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` unchanged.

        Raises
        ------
        UnsupportedOpError
            If a kernel has more threads or blocks than a GPU launches, or no threads at all: it
            would run on the host, which cannot read the GPU's memory.
        """
        for var, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and (reason := _refusal(func)):
                raise UnsupportedOpError(f"kernel {var.name_hint}: {reason}")
        return mod


def _refusal(func: tirx.PrimFunc) -> str | None:
    """Say why a GPU cannot run a kernel, or None."""
    extents = _extents(func)
    if not extents:
        return "no loop of it is given to threads of the GPU; build the network for a CPU"
    known = ((tag, int(size)) for tag, size in extents if isinstance(size, tirx.IntImm))
    reasons = filter(None, (unlaunchable(tag, size) for tag, size in known))
    reason = next(reasons, None)
    return reason and f"{reason}; build the network for a smaller batch or smaller tensors"


def _extents(func: tirx.PrimFunc) -> list[tuple[str, tirx.Expr]]:
    """Return the axes of the grids and blocks of a function, and their extents."""
    found: list[tuple[str, tirx.Expr]] = []

    def _note_loop(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found.append((str(loop.thread_binding.thread_tag), loop.extent))

    def _note_extent(attribute: tirx.AttrStmt) -> None:
        if attribute.attr_key == "thread_extent":  # TVM's kernels of sorts bind their threads so
            found.append((str(attribute.node.thread_tag), attribute.value))

    tvm_ffi.structural_walk(func.body, (tirx.For, _note_loop))
    tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, _note_extent))
    return found
