"""While a module is built for CUDA: fat binaries by NVRTC in place of TVM's own compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import tvm_ffi
from tvm.target import Target

from schedules.cuda.device.cudart import MAJOR
from schedules.cuda.device.runtime import load_cuda_runtime
from schedules.cuda.toolchain.fat_binary import bundle, compile_parts
from schedules.cuda.toolchain.nvrtc import Compiled, Nvrtc

CALLBACK = "tvm_callback_cuda_compile"


@contextmanager
def compiled_by(compile_source: Callable[[str], bytes]) -> Iterator[None]:
    """Have ``compile_source`` turn CUDA C into what a module holds, in place of TVM's own.

    TVM asks it only where its CUDA runtime is loaded; else modules hold the source.
    """
    before = tvm_ffi.get_global_func(CALLBACK, allow_missing=True)
    tvm_ffi.register_global_func(CALLBACK, compile_source, override=True)
    try:
        yield
    finally:
        if before is None:
            tvm_ffi.remove_global_func(CALLBACK)
        else:
            tvm_ffi.register_global_func(CALLBACK, before, override=True)


@contextmanager
def fat_binaries(architectures: Sequence[str]) -> Iterator[list[Compiled]]:
    """Make ``tvm.compile`` embed machine code of ``architectures``, with no toolkit or driver.

    What it compiles is in the list that this yields.

    Raises
    ------
    ScheduleError
        If what it needs is not installed.
    """
    load_cuda_runtime()
    compiled: list[Compiled] = []

    def _fat_binary(source: str) -> bytes:
        parts = compile_parts(source, architectures)
        compiled.extend(parts)
        return bundle(parts)

    with compiled_by(_fat_binary):
        yield compiled


def device_code(
    target: Target, architectures: Sequence[str] = ()
) -> AbstractContextManager[list[Compiled]]:
    """Return the context in which ``tvm.compile`` makes code for ``target``.

    It is that of the target's own architecture, or of all ``architectures``; for what is no GPU,
    none is needed, and the list stays empty.

    Raises
    ------
    ScheduleError
        If what it needs is not installed, or an architecture is unknown.
    """
    if target.kind.name != "cuda":
        return nullcontext([])
    return fat_binaries(tuple(architectures) or (str(target.attrs["arch"]),))


def least_driver() -> str:
    """Return the CUDA, as in "13.0", that a driver has to serve to run what is compiled here.

    TVM's runtime needs the one it is linked with; PTX, that of the compiler that made it.
    """
    major, minor = max((MAJOR, 0), Nvrtc().version)
    return f"{major}.{minor}"
