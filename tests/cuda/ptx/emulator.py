"""Kernels as NVIDIA's compiler makes them, run by the interpreter of PTX."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import tirx

from schedules.cuda.device.limits import asked_shared_bytes
from schedules.cuda.toolchain.nvrtc import Nvrtc
from tests.cuda import emulator
from tests.cuda.ptx.decode import Decoder
from tests.cuda.ptx.errors import PtxError, UnknownPtxError
from tests.cuda.ptx.machine import Machine, special_registers
from tests.cuda.ptx.memory import GlobalMemory, PrivateMemory, SharedMemory
from tests.cuda.ptx.text import Kernel, Variable, parse
from tests.cuda.ptx.types import DTYPES

MOST_LANES = 1 << 14  # at once, so that their registers stay in the cache
MOST_SHARED_BYTES = 48 << 10  # of a block, without being asked for
MOST_ASKED_BYTES = 99 << 10  # of a block, on every GPU from sm_80 on
WIDEST_BYTES = 16  # of an access


@dataclass(frozen=True)
class Launch:
    """Extents of the grid and of a block, and the shared memory that a block asks for."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int = 0


class PtxModule:
    """PTX text, to be launched kernel by kernel."""

    def __init__(self, text: str) -> None:
        self.kernels = parse(text)

    def launch(
        self, name: str, size: Launch, arguments: Sequence[np.ndarray | int]
    ) -> list[np.ndarray]:
        """Run a kernel on copies of its arguments, numbers among them; return the copies.

        Raises
        ------
        PtxError
            If a thread does what it may not, or the kernel has what is not known here.
        """
        kernel = self.kernels[name]
        threads = math.prod(size.block)
        if kernel.most_threads is not None and threads > kernel.most_threads:
            raise PtxError(f"{name}: {threads} threads, compiled for {kernel.most_threads}")
        memory = GlobalMemory([item for item in arguments if isinstance(item, np.ndarray)])
        addresses, sizes = _placed(kernel, size.shared_bytes)
        program = Decoder(kernel, addresses).program()
        parameters = _parameters(kernel, memory, arguments)
        padded = -(-threads // 32) * 32
        at_once = max(1, MOST_LANES // padded)
        for first in range(0, math.prod(size.grid), at_once):
            blocks = np.arange(first, min(first + at_once, math.prod(size.grid)))
            Machine(
                kernel=kernel,
                parameters=parameters,
                memory=memory,
                shared=SharedMemory(len(blocks), padded, sizes["shared"], _granule(kernel)),
                local=PrivateMemory(len(blocks) * padded, sizes["local"]),
                special=special_registers(size.grid, size.block, blocks),
                threads=padded,
            ).run(program)
        return memory.arguments


class PtxEmulator:
    """The kernels of TVM's CUDA C, compiled by NVRTC for an architecture; see ``Emulator``."""

    def __init__(self, source: str, architecture: str) -> None:
        binary = Nvrtc().compile(source, architecture, "ptx").binary
        self._declared = emulator.kernels(source)
        self.text = binary.decode().rstrip("\0")
        self._module = PtxModule(self.text)

    def with_text(self, text: str) -> PtxEmulator:
        """Return the same kernels with another text."""
        changed = copy.copy(self)
        changed.text, changed._module = text, PtxModule(text)
        return changed

    def launch(
        self, name: str, func: tirx.PrimFunc, arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Run the kernel of a scheduled PrimFunc on copies of its arguments; return the copies.

        Raises
        ------
        PtxError
            If a thread does what it may not.
        """
        symbolic = emulator.symbolic_sizes(func, arrays)
        extents = emulator.launch_size(func, symbolic)
        names = [f"{param.name}_ptr" for param in func.params]
        values = dict(zip(names, arrays, strict=True))
        values |= {str(var.name): int(size) for var, size in symbolic.items()}
        declared = self._declared[name].arguments
        passed = [values[argument] for argument in declared]
        size = Launch(extents[:3], extents[3:], asked_shared_bytes(func))
        copies = iter(self._module.launch(name, size, passed))
        after = {key: next(copies) for key in declared if isinstance(values[key], np.ndarray)}
        return [after.get(key, values[key]) for key in names]


def _parameters(
    kernel: Kernel, memory: GlobalMemory, arguments: Sequence[np.ndarray | int]
) -> dict[str, int]:
    found, pointers = {}, 0
    for (name, _), value in zip(kernel.parameters, arguments, strict=True):
        if isinstance(value, np.ndarray):
            found[name], pointers = memory.address(pointers), pointers + 1
        else:
            found[name] = value
    return found


def _placed(kernel: Kernel, asked_bytes: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return addresses of variables in their memory, and how many bytes each memory has.

    An array without a size is the shared memory that the launch asks for, behind all other.
    """
    sizes = {"shared": 0, "local": 0}
    # The compiler reads on to where the next variable may begin.
    alignment = max((variable.alignment for variable in kernel.variables.values()), default=1)
    addresses = {}
    asked = [one for one in kernel.variables.values() if one.count is None]
    for variable in kernel.variables.values():
        if variable in asked and variable.space == "shared":
            continue
        if variable.space not in sizes or variable.count is None or variable.is_initialized:
            raise UnknownPtxError(f"{kernel.name}: no meaning of {variable} is known")
        addresses[variable.name] = sizes[variable.space]
        sizes[variable.space] += -(-_bytes(variable) // alignment) * alignment
    if sizes["shared"] > MOST_SHARED_BYTES:
        raise PtxError(f"{kernel.name}: {sizes['shared']} bytes of shared memory in a block")
    if asked_bytes > MOST_ASKED_BYTES or (asked_bytes and not asked):
        raise PtxError(f"{kernel.name}: a launch asks for {asked_bytes} bytes of shared memory")
    addresses |= {one.name: sizes["shared"] for one in asked}
    sizes["shared"] += asked_bytes
    return addresses, sizes


def _bytes(variable: Variable) -> int:
    assert variable.count is not None
    return variable.count * DTYPES[variable.dtype].itemsize


def _granule(kernel: Kernel) -> int:
    """Return the bytes of the smallest access to shared memory, whose space may be generic."""
    sizes = [
        DTYPES[item.modifiers[-1]].itemsize
        for item in kernel.instructions
        if item.name in ("ld", "st") and not {"global", "param", "local"} & set(item.modifiers)
    ]
    return min(sizes, default=WIDEST_BYTES)
