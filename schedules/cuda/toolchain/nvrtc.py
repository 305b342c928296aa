"""CUDA C to machine code, without a toolkit, a driver or a GPU: NVIDIA's NVRTC by ctypes.

The library comes from the package index (``nvidia-cuda-nvrtc-cu12``, 24 MB), the extra ``cuda`` of
this project. Floating point is exact: neither fast division nor flushed denormals.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal

from schedules.cuda.toolchain.nvidia_packages import load_library
from schedules.cuda.toolchain.preamble import without_headers
from schedules.template import ScheduleError

Form = Literal["cubin", "ptx"]
PACKAGE = "cuda_nvrtc"
LIBRARY = "libnvrtc.so.12"
OPTIONS = ("--device-as-default-execution-space", "--std=c++17", "--ptxas-options=-v")
"""No ``--use_fast_math``: quantize divides, and must round as IEEE does."""
_USAGE = re.compile(
    r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, "
    r"(\d+) bytes spill loads.*?Used (\d+) registers([^\n]*)",
    re.S,
)
_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\) (\w+)\(")
BUSY_THREADS = 512  # threads of a multiprocessor that hide the latency of its memories
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, kw_only=True)
class KernelUsage:
    """What one kernel takes of a multiprocessor, by the word of the assembler.

    Parameters
    ----------
    registers
        Of a thread.
    spilled_bytes
        That a thread stores and loads because it has too few of them.
    stack_bytes
        Of a thread's arrays that are not in registers.
    shared_bytes
        Of a block, those left out that a launch asks for.
    """

    registers: int
    spilled_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """One binary: ``form`` for ``architecture``; ``usage`` by kernel, empty for PTX."""

    architecture: str
    form: Form
    binary: bytes
    usage: dict[str, KernelUsage]

    @property
    def spilled_bytes(self) -> int:
        """Bytes that all kernels spill."""
        return sum(use.spilled_bytes for use in self.usage.values())


class Nvrtc:
    """The compiler.

    Raises
    ------
    ScheduleError
        If its library is not installed.
    """

    def __init__(self) -> None:
        self._library = load_library(PACKAGE, LIBRARY)

    @property
    def version(self) -> tuple[int, int]:
        """Major and minor version."""
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._check(self._library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
        return major.value, minor.value

    @property
    def architectures(self) -> tuple[str, ...]:
        """The architectures it knows, as ``sm_80``."""
        count = ctypes.c_int()
        self._check(self._library.nvrtcGetNumSupportedArchs(ctypes.byref(count)))
        numbers = (ctypes.c_int * count.value)()
        self._check(self._library.nvrtcGetSupportedArchs(numbers))
        return tuple(f"sm_{number}" for number in numbers)

    def compile(self, source: str, architecture: str, form: Form = "cubin") -> Compiled:
        """Return the binary of TVM's CUDA C.

        Parameters
        ----------
        source
            As TVM generates it; its preamble is replaced.
        architecture
            As in ``sm_80``; PTX runs on it and on all newer ones.
        form
            Machine code of the one architecture, or PTX.

        Raises
        ------
        ScheduleError
            For an architecture it does not know, or CUDA C it does not accept.
        """
        if architecture not in self.architectures:
            version = ".".join(map(str, self.version))
            raise ScheduleError(
                f"architecture {architecture!r} is unknown to NVRTC {version}; "
                f"it knows {', '.join(self.architectures)}"
            )
        text = without_headers(source)
        first = self._compile(text, architecture, form)
        spilling = [name for name, use in first.usage.items() if use.spilled_bytes]
        if not spilling:
            return first
        second = self._compile(with_few_blocks(text, spilling), architecture, form)
        return min(first, second, key=lambda compiled: compiled.spilled_bytes)

    def _compile(self, text: str, architecture: str, form: Form) -> Compiled:
        program = ctypes.c_void_p()
        self._check(
            self._library.nvrtcCreateProgram(
                ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None
            )
        )
        try:
            return self._compiled(program, architecture, form)
        finally:
            self._library.nvrtcDestroyProgram(ctypes.byref(program))

    def _compiled(self, program: ctypes.c_void_p, architecture: str, form: Form) -> Compiled:
        virtual = architecture.replace("sm_", "compute_") if form == "ptx" else architecture
        options = [option.encode() for option in (f"--gpu-architecture={virtual}", *OPTIONS)]
        array = (ctypes.c_char_p * len(options))(*options)
        error = self._library.nvrtcCompileProgram(program, len(options), array)
        log = self._text(
            program, self._library.nvrtcGetProgramLogSize, self._library.nvrtcGetProgramLog
        )
        message = log.decode(errors="replace").rstrip("\0\n")
        if error:
            raise ScheduleError(f"NVRTC for {architecture}: {message}")
        getters = {
            "cubin": (self._library.nvrtcGetCUBINSize, self._library.nvrtcGetCUBIN),
            "ptx": (self._library.nvrtcGetPTXSize, self._library.nvrtcGetPTX),
        }
        binary = self._text(program, *getters[form])
        usage = kernel_usage(message)
        return Compiled(architecture=architecture, form=form, binary=binary, usage=usage)

    def _text(
        self,
        program: ctypes.c_void_p,
        size_of: Callable[..., int],
        read: Callable[..., int],
    ) -> bytes:
        size = ctypes.c_size_t()
        self._check(size_of(program, ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value)
        self._check(read(program, buffer))
        return buffer.raw

    def _check(self, error: int) -> None:
        if error:
            self._library.nvrtcGetErrorString.restype = ctypes.c_char_p
            reason = self._library.nvrtcGetErrorString(error).decode()
            raise ScheduleError(f"NVRTC: {reason}")


def with_few_blocks(text: str, names: Collection[str]) -> str:
    """Return CUDA C whose kernels ``names`` are to share a multiprocessor with few threads.

    The assembler keeps registers few, so that many blocks fit, and may spill some that it need not:
    it does not where it is told how many blocks are enough.
    """

    def _bounded(declared: re.Match[str]) -> str:
        threads, name = int(declared[1]), declared[2]
        if name not in names:
            return declared[0]
        return f"__launch_bounds__({threads}, {max(1, BUSY_THREADS // threads)}) {name}("

    return _BOUNDS.sub(_bounded, text)


def kernel_usage(log: str) -> dict[str, KernelUsage]:
    """Return what each kernel takes, from what ptxas prints with ``-v``."""
    usage = {}
    for name, stack, stores, loads, registers, rest in _USAGE.findall(log):
        shared = _SHARED.search(rest)
        usage[name] = KernelUsage(
            registers=int(registers),
            spilled_bytes=int(stores) + int(loads),
            stack_bytes=int(stack),
            shared_bytes=int(shared[1]) if shared else 0,
        )
    return usage
