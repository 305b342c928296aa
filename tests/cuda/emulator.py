"""CUDA C as TVM generates it, run on the CPU through shim.h: no GPU, no driver, no toolkit."""

from __future__ import annotations

import ctypes
import functools
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer
from tvm.target import Target

from schedules.cuda.toolchain.compiler import compiled_by
from schedules.cuda.toolchain.mma_preamble import MMA_FUNCTIONS
from tests.compiled import NO_CHECKS
from tests.made_once import made_once

SHIM = Path(__file__).parent / "shim.h"
ALIGNMENT = 256  # bytes, as cudaMalloc gives
ERRORS = (
    "",
    "threads of one block part at a barrier",
    "reads or writes outside of an argument",
    "reads or writes at an address that the size of the access does not divide",
    "threads of one warp part at an instruction of all of them",
)
MOST_THREADS = 1024  # of a block, on every GPU
AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z")
COMPILER = (
    "g++",
    "-std=c++17",
    "-w",
    "-fPIC",
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fsanitize=alignment",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",  # which takes jumps between stacks for faults
)
_ASKED = re.compile(r"extern __shared__ \S+ uchar (\w+)\[\];")  # shared memory of a launch
_DEFINITION = re.compile(
    r'extern "C" __global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^)]*)\) \{(.*?)\n\}', re.S
)


class EmulationError(AssertionError):
    """A kernel did what no kernel may do on a GPU."""


@dataclass(frozen=True)
class Kernel:
    """One ``__global__`` function: its parameters as C declares them, and its body."""

    name: str
    parameters: tuple[str, ...]
    body: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(re.split(r"[\s*]+", parameter)[-1] for parameter in self.parameters)


def cuda_source(mod: tvm.IRModule, target: Target) -> str:
    """Return the CUDA C that TVM generates for scheduled PrimFuncs."""
    # What launches them is written as C and compiled by nobody: LLVM would take half of the time.
    target = Target(target, host="c")
    asked: list[str] = []

    def keep(source: str) -> bytes:
        asked.append(source)
        return b""

    with compiled_by(keep), tvm.transform.PassContext(config=NO_CHECKS):
        built = tvm.compile(mod, target=target)
    return asked[0] if asked else str(built.mod.imports[0].inspect_source())


def kernels(source: str) -> dict[str, Kernel]:
    """Return the kernels that ``source`` defines."""
    found = {}
    for name, parameters, body in _DEFINITION.findall(source):
        declared = tuple(item.strip() for item in parameters.split(","))
        found[name] = Kernel(name, declared, body)
    return found


def symbolic_sizes(
    func: tirx.PrimFunc, arrays: Sequence[np.ndarray]
) -> dict[tvm.ir.Var, tirx.IntImm]:
    """Return what the symbolic extents of a kernel's arguments are for these arrays."""
    return {
        extent: tirx.const(size, "int64")
        for param, array in zip(func.params, arrays, strict=True)
        for extent, size in zip(param.ty.shape, array.shape, strict=True)
        if isinstance(extent, tvm.ir.Var)
    }


def launch_size(
    func: tirx.PrimFunc, sizes: Mapping[tvm.ir.Var, tirx.IntImm] | None = None
) -> tuple[int, ...]:
    """Return the extents of the grid and of a block that a scheduled PrimFunc asks for."""
    extents: dict[str, int] = {}

    def note(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            tag = str(loop.thread_binding.thread_tag)
            extents[tag] = max(extents.get(tag, 1), _value(loop.extent, sizes or {}))

    tvm_ffi.structural_walk(func.body, (tirx.For, note))
    return tuple(extents.get(axis, 1) for axis in AXES)


def _value(extent: tirx.Expr, sizes: Mapping[tvm.ir.Var, tirx.IntImm]) -> int:
    known = tvm_ffi.structural_map(extent, (tvm.ir.Var, lambda var: sizes.get(var, var)))
    return int(Analyzer().simplify(known))


class Emulator:
    """The kernels of one CUDA source, compiled for the CPU once; ``optimize`` for long runs.

    ``capability`` is that of the GPU, as CUDA C sees it: 80 for sm_80.
    """

    def __init__(self, source: str, *, optimize: bool = False, capability: int = 80) -> None:
        self._kernels = kernels(source)
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "kernels.so"
            compile_kernels(self._kernels, library, optimize, capability)
            self._library = ctypes.CDLL(str(library))

    def begin_backwards(self) -> None:
        """Run threads in the opposite order, which shows other missing barriers."""
        ctypes.c_int.in_dll(self._library, "shim_order").value = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(self._kernels)

    def launch(
        self, name: str, func: tirx.PrimFunc, arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Run the kernel of a scheduled PrimFunc on copies of its arguments; return the copies.

        Raises
        ------
        EmulationError
            If threads of a block part at a barrier, or reach outside of an array.
        """
        kernel, symbolic = self._kernels[name], symbolic_sizes(func, arrays)
        extents = launch_size(func, symbolic)
        assert math.prod(extents[3:]) <= MOST_THREADS, f"{name}: {extents[3:]} threads in a block"
        names = [f"{param.name}_ptr" for param in func.params]
        aligned = {key: _Aligned(array) for key, array in zip(names, arrays, strict=True)}
        values = {
            **{str(var.name): (ctypes.c_int64(int(size)),) for var, size in symbolic.items()},
            **{key: memory.passed for key, memory in aligned.items()},
        }
        passed = [value for key in kernel.arguments for value in values[key]]
        error = self._library[f"run_{name}"]((ctypes.c_int * 6)(*extents), *passed)
        if error:
            raise EmulationError(f"{name}: {ERRORS[error]}")
        return [memory.array for memory in aligned.values()]


class _Aligned:
    """A copy of an array, at an address as the GPU's allocator gives them."""

    def __init__(self, array: np.ndarray) -> None:
        memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
        start = -memory.ctypes.data % ALIGNMENT
        self.array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        self.array[...] = array

    @property
    def passed(self) -> tuple[ctypes.c_void_p, ctypes.c_int64]:
        """Return address and size."""
        return ctypes.c_void_p(self.array.ctypes.data), ctypes.c_int64(self.array.nbytes)


def compile_kernels(
    found: Mapping[str, Kernel], library: Path, optimize: bool = False, capability: int = 80
) -> None:
    """Write a library with a function ``run_<name>`` for each kernel."""
    kernels = (_translated(kernel) for kernel in found.values())
    defined = f"#define __CUDA_ARCH__ {10 * capability}"
    text = "\n".join([f'#include "{SHIM.name}"', defined, MMA_FUNCTIONS, *kernels])
    level = "-O1" if optimize else "-O0"  # -O2 compiles twice as long, and its code is no faster
    options = [level, "-shared", f"-I{_precompiled(level)}", "-x", "c++", "-", "-o", str(library)]
    done = subprocess.run([*COMPILER, *options], input=text, text=True, capture_output=True)
    if done.returncode:
        raise EmulationError(f"the shim does not know all of this CUDA C:\n{done.stderr[:3000]}")


@functools.cache
def _precompiled(level: str) -> Path:
    """Compile the shim, half of what there is to compile, once a run; return its folder."""

    def _compile(folder: Path) -> None:
        shutil.copy(SHIM, folder)
        header = folder / SHIM.name
        options = [level, "-x", "c++-header", str(header), "-o", f"{header}.gch"]
        subprocess.run([*COMPILER, *options], check=True)

    return made_once(f"shim{level}", _compile)


def _translated(kernel: Kernel) -> str:
    """Return a kernel and the function that launches it.

    Its arguments are globals, since a fiber starts without any; pointers know their bounds.
    """
    name = kernel.name
    kept, passed, stored, inside = [], [], [], []
    for parameter, argument in zip(kernel.parameters, kernel.arguments, strict=True):
        kind = parameter.removesuffix(argument).replace("__restrict__", "").strip()
        value, passes = argument, [f"{kind} {argument}"]
        if kind.endswith("*"):
            passes.append(f"int64_t {argument}_bytes")
            value = f"{{{argument}, (char*){argument}, {argument}_bytes}}"
            stored.append(f"shim::note_argument({argument}, {argument}_bytes);")
            kind = f"shim::Pointer<{kind.removesuffix('*')}>"
        kept.append(f"static {kind} {name}_{argument};")
        inside.append(f"{kind} {argument}")
        passed.extend(passes)
        stored.append(f"{name}_{argument} = {value};")
    called = ", ".join(f"{name}_{argument}" for argument in kernel.arguments)
    body = _ASKED.sub(r"uchar* \1 = (uchar*)asked_bytes();", kernel.body)
    waits = any(call in kernel.body for call in ("__syncthreads", "multiply_", "__shfl_"))
    has_barriers = str(waits).lower()
    return f"""
{" ".join(kept)}
__global__ void {name}({", ".join(inside)}) {{{body}
}}
extern "C" int run_{name}(const int* size, {", ".join(passed)}) {{
  shim::argument_count = 0;
  {" ".join(stored)}
  shim::kernel = [] {{ {name}({called}); }};
  return shim::launch(size, {has_barriers});
}}"""
