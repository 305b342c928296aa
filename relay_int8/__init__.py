"""INT8 post-training quantization, tensorized kernels and autotuning for Apache TVM.

The public names are loaded when they are first used, so that :func:`load` runs an artifact
without importing the compiler.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relay_int8.artifact import load, read_manifest, save_artifact
    from relay_int8.errors import Int8Error

__version__ = "0.1.0"

__all__ = ["Int8Error", "__version__", "load", "read_manifest", "save_artifact"]

_HOMES = {
    "Int8Error": "errors",
    "load": "artifact",
    "read_manifest": "artifact",
    "save_artifact": "artifact",
}


def __getattr__(name: str) -> Any:
    """Import the module that holds public name ``name``."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
