"""While a module is built for CUDA: fat binaries by NVRTC in place of TVM's own compilation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import tvm_ffi
from tvm.target import Target

from schedules.cuda.fat_binary import compile_for
from schedules.cuda.runtime import load_cuda_runtime

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
def fat_binaries(architectures: Sequence[str]) -> Iterator[None]:
    """Make ``tvm.compile`` embed machine code of ``architectures``, with no toolkit or driver.

    Raises
    ------
    ScheduleError
        If what it needs is not installed.
    """
    load_cuda_runtime()
    with compiled_by(lambda source: compile_for(source, architectures)):
        yield


def device_code(target: Target, architectures: Sequence[str] = ()) -> AbstractContextManager[None]:
    """Return the context in which ``tvm.compile`` makes code for ``target``.

    It is that of the target's own architecture, or of all ``architectures``; for what is no GPU,
    none is needed.

    Raises
    ------
    ScheduleError
        If what it needs is not installed, or an architecture is unknown.
    """
    if target.kind.name != "cuda":
        return nullcontext()
    return fat_binaries(tuple(architectures) or (str(target.attrs["arch"]),))
