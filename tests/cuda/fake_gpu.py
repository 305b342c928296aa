"""A GPU that is none: NVIDIA's driver and CUDA's runtime as two libraries that run kernels here.

TVM's own runtime for GPUs is loaded on top of them, so what is tested is everything but the GPU:
finding it, loading the libraries, memory, launches, graphs. Processes that see it have
``environment``: there the runtime is that of a package alone, and no toolkit's is found.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from schedules.cuda.toolchain import compiler
from schedules.cuda.toolchain.nvrtc import Compiled
from tests.cuda.emulator import Kernel, compile_kernels, kernels
from tests.made_once import made_once

HERE = Path(__file__).parent
RUNTIME = "libcudart.so.13"
DRIVER = "libcuda.so.1"


@contextmanager
def noted_sources() -> Iterator[list[str]]:
    """Give the CUDA C that is compiled in this context, in order."""
    found: list[str] = []
    compile_parts = compiler.compile_parts

    def noted(source: str, names: Sequence[str]) -> list[Compiled]:
        found.append(source)
        return compile_parts(source, names)

    with patch.object(compiler, "compile_parts", noted):
        yield found


@dataclass(frozen=True)
class FakeGpu:
    """Where the driver lies, and packages of Python that hold the runtime, as NVIDIA's do."""

    folder: Path
    site: Path
    kernels: Path

    @classmethod
    def make(cls, folder: Path, source: str) -> FakeGpu:
        """Return a GPU that runs the kernels of some CUDA C, and no others."""
        made = cls._make(folder, "launches.so")
        compile_launches(source, made.kernels, folder / DRIVER)
        return made

    @classmethod
    def of_any_kernels(cls, folder: Path) -> FakeGpu:
        """Return a GPU that runs what processes compile that see it: they compile it twice."""
        made = cls._make(folder, "modules")
        made.kernels.mkdir()
        shutil.copy(HERE / "fake_compilation.py", made.site / "sitecustomize.py")
        return made

    @classmethod
    def _make(cls, folder: Path, kernels: str) -> FakeGpu:
        folder.mkdir()
        site = folder / "site"
        runtime = site / "nvidia" / "cu13" / "lib" / RUNTIME
        runtime.parent.mkdir(parents=True)
        # The loader gives up at this file: whatever toolkit is installed, it is not found.
        (folder / RUNTIME).touch()
        shutil.copy(stand_ins() / DRIVER, folder)
        shutil.copy(stand_ins() / RUNTIME, runtime)
        return cls(folder, site, folder / kernels)

    def environment(self, devices: str = "Fake GPU:80:16", driver: int = 13000) -> dict[str, str]:
        """Return the variables with which a process sees these devices."""
        return {
            "LD_LIBRARY_PATH": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(self.site), os.environ.get("PYTHONPATH", "")]),
            "FAKE_CUDA_DEVICES": devices,
            "FAKE_CUDA_DRIVER": str(driver),
            "FAKE_CUDA_KERNELS": str(self.kernels),
        }


@functools.cache
def stand_ins() -> Path:
    """Compile driver and runtime, which are those of every GPU, once a run; return their folder."""
    return made_once("stand-ins", _compile_stand_ins)


def _compile_stand_ins(folder: Path) -> None:
    driver, runtime = folder / DRIVER, folder / RUNTIME
    compiled(["-x", "c", str(HERE / "fake_driver.c"), "-c", "-o", str(folder / "driver.o")])
    files = [str(HERE / "fake_launches.cc"), str(folder / "driver.o"), "-ldl"]
    compiled(["-shared", *files, f"-Wl,-soname,{driver.name}", "-o", str(driver)])
    (folder / "versions").write_text(f"{RUNTIME} {{ global: cuda*; local: *; }};")
    script = f"-Wl,-soname,{RUNTIME},--version-script,{folder / 'versions'}"
    files = [str(HERE / "fake_runtime.cc"), str(driver)]
    compiled(["-shared", *files, script, "-o", str(runtime)])


HALF = 'extern "C" int64_t fake_bytes(const void* address);'


def compile_launches(source: str, library: Path, driver: Path) -> None:
    """Write the library of some CUDA C that the driver's stand-in loads."""
    found = kernels(source)
    bodies = library.with_suffix(".kernels.so")
    compile_kernels(found, bodies)
    launches = "\n".join(map(_launch, found.values()))
    text = library.with_suffix(".cc")
    text.write_text(f"#include <stdint.h>\n{HALF}\n{launches}\n")
    files = [str(text), str(bodies), str(driver)]
    compiled(["-shared", *files, "-Wl,-rpath,$ORIGIN", "-o", str(library)])


def _launch(kernel: Kernel) -> str:
    """Return the function that launches a kernel with arguments as the driver is given them."""
    declared, passed = [], []
    for place, (parameter, name) in enumerate(
        zip(kernel.parameters, kernel.arguments, strict=True)
    ):
        kind = parameter.removesuffix(name).replace("__restrict__", "").strip()
        is_pointer = kind.endswith("*")
        declared.append("void*, int64_t" if is_pointer else kind)
        kind = "void*" if is_pointer else kind
        passed.append(f"*({kind}*)p[{place}]")
        if is_pointer:
            passed.append(f"fake_bytes(*(void**)p[{place}])")
    name = kernel.name
    return f"""
extern "C" int run_{name}(const int*, {", ".join(declared)});
extern "C" int count_{name} = {len(kernel.arguments)};
extern "C" int launch_{name}(const int* size, void** p) {{
  return run_{name}(size, {", ".join(passed)});
}}"""


def compiled(arguments: list[str]) -> None:
    """Compile by g++; CalledProcessError if it fails."""
    subprocess.run(["g++", "-std=c++17", "-fPIC", "-w", *arguments], check=True)
