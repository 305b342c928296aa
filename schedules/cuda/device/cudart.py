"""NVIDIA's CUDA runtime library, of a toolkit or of the package nvidia-cuda-runtime.

It imports nothing but the standard library: what compiles for GPUs and what only runs artifacts
both load it here, and so load the same one.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

MAJOR = 13  # of the CUDA that TVM's runtime is linked with
CUDART = f"libcudart.so.{MAJOR}"
STAND_IN = "relay_int8_stand_in"
"""A symbol of the libraries that :mod:`schedules.cuda.device.runtime` puts in place of NVIDIA's."""


def load_cudart() -> bool:
    """Load the library and return whether there is one.

    Whatever asks for its name afterwards, as TVM's runtime for GPUs does, is given the same.
    """
    return any(_is_loadable(library) for library in (CUDART, *_packaged()))


def _packaged() -> list[str]:
    """Return where packages have it; a folder ``nvidia`` may lie on the path more than once."""
    files = (Path(folder, "nvidia", f"cu{MAJOR}", "lib", CUDART) for folder in sys.path)
    return [str(file) for file in files if file.exists()]


def _is_loadable(library: str) -> bool:
    try:
        loaded = ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return not hasattr(loaded, STAND_IN)
