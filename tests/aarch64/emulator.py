"""Networks for aarch64 on another computer: cross-built, run by qemu."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tvm_ffi.libinfo
from tvm.support import cc

from relay_int8.compiler.build import Built
from tests.made_once import made_once

ROOT = Path(__file__).parents[2]
RUNTIME = ROOT / "build" / "aarch64"
COMPILER, QEMU = "aarch64-linux-gnu-g++", "qemu-aarch64"
SYSROOT = "/usr/aarch64-linux-gnu"
PROGRAM = "run_network"
THREADS = ("TVM_NUM_THREADS=2", "TVM_THREAD_POOL_SPIN_COUNT=0")
"""Two, of which one that has no work waits asleep: emulated, turning takes longer than the network."""
TYPES = {"u8": np.uint8, "s8": np.int8, "s32": np.int32, "s64": np.int64, "f32": np.float32}
NAMES = {np.dtype(dtype): name for name, dtype in TYPES.items()}


def missing() -> str | None:
    """Say what there is not, or None; scripts/setup_aarch64 installs all of it."""
    tools = [tool for tool in (COMPILER, QEMU) if shutil.which(tool) is None]
    absent = tools + ([] if (RUNTIME / "versions").exists() else [str(RUNTIME)])
    return f"no {', no '.join(absent)}; run scripts/setup_aarch64" if absent else None


@dataclass(frozen=True)
class Emulator:
    """Runs networks with ``program``, which is run_network.cc compiled; its files are in ``folder``."""

    program: Path
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Emulator:
        """Compile the program that runs networks, once for all processes of a run."""
        return cls(made_once("aarch64", _compile_program) / PROGRAM, folder)

    def run(self, built: Built, inputs: Iterable[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs of a network."""
        library, given, found = (self.folder / n for n in ("network.so", "inputs", "outputs"))
        built.executable.export_library(str(library), fcompile=cc.cross_compiler(COMPILER))
        given.write_bytes(b"".join(_written(array) for array in inputs))
        command: list[str | Path] = [QEMU, "-L", SYSROOT]
        for variable in (f"LD_LIBRARY_PATH={RUNTIME}", *THREADS):
            command += ["-E", variable]
        subprocess.run([*command, self.program, library, given, found], check=True, timeout=300)
        return _read(found.read_bytes())


def _compile_program(folder: Path) -> None:
    source = Path(__file__).with_name("run_network.cc")
    includes = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    libraries = [f"-L{RUNTIME}", "-ltvm_ffi", "-ldl"]
    command = [COMPILER, "-std=c++17", "-O1", source, "-o", folder / PROGRAM]
    subprocess.run([*command, *includes, *libraries], check=True)


def _written(array: np.ndarray) -> bytes:
    words = [NAMES[array.dtype], *map(str, array.shape)]
    return " ".join(words).encode() + b"\n" + array.tobytes()


def _read(content: bytes) -> list[np.ndarray]:
    arrays = []
    while content:
        header, _, content = content.partition(b"\n")
        name, *dims = header.decode().split()
        count, dtype = int(np.prod([int(dim) for dim in dims])), np.dtype(TYPES[name])
        arrays.append(np.frombuffer(content, dtype, count).reshape([int(dim) for dim in dims]))
        content = content[count * dtype.itemsize :]
    return arrays
