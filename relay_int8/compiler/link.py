"""From compiled code to a shared library: object files, and the compiler that links them."""

from __future__ import annotations

import platform
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm
from tvm.support import cc
from tvm.target import Target

from relay_int8.errors import ArtifactError
from schedules.cores import usable_cores
from schedules.targets import machine


def export_library(executable: tvm.runtime.Executable, target: Target, path: Path | str) -> None:
    """Write what was compiled for ``target`` as a shared library; ArtifactError as Built.export."""
    compiler = cross_linker(target)
    link = cc.cross_compiler(compiler) if compiler else cc.create_shared
    try:
        with tempfile.TemporaryDirectory(prefix="relay-int8-") as folder:
            link(str(path), _object_files(executable.mod, Path(folder)), options=["-Wl,-S"])
    except RuntimeError as error:
        raise ArtifactError(f"{path}: the library cannot be linked: {error}") from error


def _object_files(library: tvm.runtime.Module, folder: Path) -> list[str]:
    """Write the files that TVM's ``export_library`` links; all cores make machine code."""
    modules = library._collect_dso_modules()
    files = [str(folder / f"lib{number}.o") for number in range(len(modules))]
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda module, file: module.write_to_file(file), modules, files))
    target = modules[-1].get_function("_get_target_string")()
    # What is no machine code of the host's: the virtual machine's, and the code of GPUs.
    others = tvm.runtime._ffi_api.ModulePackImportsToLLVM(library, False, target, "")
    others.write_to_file(str(folder / "devc.o"))
    return [*files, str(folder / "devc.o")]


def _require_compiler() -> None:
    """Refuse to go on where TVM would find no compiler that links for this computer."""
    compiler = cc.get_cc()
    if compiler is None:
        raise ArtifactError(
            "no C compiler found on the PATH: it links the library; install one (Debian: g++), or "
            "name one by the variable CXX"
        )
    if shutil.which(compiler) is None:
        raise ArtifactError(
            f"{compiler}, which the variable CXX or CC names, is no program; a C compiler is "
            "expected: it links the library"
        )


def cross_linker(target: Target) -> str | None:
    """Return the compiler that links libraries for another kind of computer; None for this one's.

    Raises
    ------
    ArtifactError
        If it is not installed, or for this computer none is.
    """
    wanted = machine(target)
    if wanted == platform.machine():
        _require_compiler()
        return None
    compiler = f"{wanted}-linux-gnu-g++"
    if shutil.which(compiler) is None:
        raise ArtifactError(
            f"{compiler} not found: a library for {wanted} is linked by it; install it "
            f"(Debian: g++-{wanted.replace('_', '-')}-linux-gnu)"
        )
    return compiler
