"""The sitecustomize of processes that see a stand-in GPU: what they compile for it is compiled for this CPU, too.

The driver's stand-in finds the second library by the checksum of the first.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from importlib.abc import MetaPathFinder
from pathlib import Path

COMPILER = "schedules.cuda.toolchain.compiler"


class _Finder(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != COMPILER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def executed(module):
            execute(module)
            _install(module)

        spec.loader.exec_module = executed
        return spec


def _install(compiler):
    """Have the module that makes fat binaries make libraries of the same kernels."""
    compile_parts, bundle, sources = compiler.compile_parts, compiler.bundle, []

    def noted(source, names):
        sources.append(source)
        return compile_parts(source, names)

    def bundled(parts):
        from tests.cuda.fake_gpu import DRIVER, compile_launches  # not before: it imports COMPILER

        binary = bundle(parts)
        folder = Path(os.environ["FAKE_CUDA_KERNELS"])
        library = folder / f"{zlib.crc32(binary):08x}.so"
        if not library.exists():
            compile_launches(sources[-1], library, folder.parent / DRIVER)
        return binary

    compiler.compile_parts, compiler.bundle = noted, bundled


sys.meta_path.insert(0, _Finder())
