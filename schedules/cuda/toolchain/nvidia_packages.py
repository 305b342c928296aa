"""NVIDIA's libraries from the package index: the extra ``cuda`` of this project."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from schedules.template import ScheduleError


def load_library(package: str, name: str) -> ctypes.CDLL:
    """Return the shared library ``name`` of ``nvidia.<package>``.

    Raises
    ------
    ScheduleError
        If it is not installed.
    """
    try:
        spec = importlib.util.find_spec(f"nvidia.{package}")
    except ModuleNotFoundError:
        spec = None
    for folder in (spec.submodule_search_locations if spec else None) or ():
        path = Path(folder) / "lib" / name
        if path.exists():
            return ctypes.CDLL(str(path))
    raise ScheduleError(
        f"{name} was not found; CUDA code is compiled with it: pip install 'relay-int8[cuda]'"
    )
