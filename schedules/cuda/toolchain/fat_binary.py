"""One file for many GPUs: machine code of several architectures, and PTX for those to come.

The driver picks the member that fits when the module is loaded, or compiles the PTX. Made with
NVIDIA's nvFatbin (``nvidia-nvfatbin-cu12``, 1 MB, of the extra ``cuda``).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from schedules.cuda.device.gpus import capability
from schedules.cuda.toolchain.nvidia_packages import load_library
from schedules.cuda.toolchain.nvrtc import Compiled, Nvrtc
from schedules.template import ScheduleError

PACKAGE, LIBRARY = "nvfatbin", "libnvfatbin.so.12"
OPTIONS = (b"-64", b"-compress=true")
MAGIC = bytes.fromhex("50ed55ba")
"""How every fat binary begins."""


def compile_parts(source: str, architectures: Sequence[str]) -> tuple[Compiled, ...]:
    """Return TVM's CUDA C as code of each architecture, and last as PTX of the newest.

    Raises
    ------
    ScheduleError
        For an unknown architecture, no architecture, or CUDA C that does not compile.
    """
    if not architectures:
        raise ScheduleError("no architecture to compile for; name one, as in sm_80")
    nvrtc = Nvrtc()
    parts = [nvrtc.compile(source, name) for name in architectures]
    return (*parts, nvrtc.compile(source, max(architectures, key=capability), "ptx"))


def bundle(parts: Sequence[Compiled]) -> bytes:
    """Return one fat binary of ``parts``."""
    library, handle = load_library(PACKAGE, LIBRARY), ctypes.c_void_p()
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    _check(library.nvFatbinCreate(ctypes.byref(handle), options, ctypes.c_size_t(len(OPTIONS))))
    try:
        for part in parts:
            _add(library, handle, part)
        size = ctypes.c_size_t()
        _check(library.nvFatbinSize(handle, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        _check(library.nvFatbinGet(handle, buffer))
        return buffer.raw
    finally:
        library.nvFatbinDestroy(ctypes.byref(handle))


def _add(library: ctypes.CDLL, handle: ctypes.c_void_p, part: Compiled) -> None:
    number = part.architecture.removeprefix("sm_").encode()
    size, name = ctypes.c_size_t(len(part.binary)), b"kernels"
    if part.form == "ptx":
        _check(library.nvFatbinAddPTX(handle, part.binary, size, number, name, b""))
    else:
        _check(library.nvFatbinAddCubin(handle, part.binary, size, number, name))


def _check(error: int) -> None:
    if error:
        raise ScheduleError(f"nvFatbin failed with error {error}")
