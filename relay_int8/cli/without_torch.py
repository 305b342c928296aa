"""TVM without PyTorch, which no command needs: it reads .pt2 files itself.

TVM imports PyTorch where it is installed: ``tvm_ffi`` before all else, for a conflict of symbols on
Windows. That takes two to three seconds of each command, and starts CUDA.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class WithoutTorch(MetaPathFinder):
    """Say that there is no PyTorch as long as TVM is being imported, and only then."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Refuse ``torch`` to TVM.

        Raises
        ------
        ModuleNotFoundError
            Which TVM takes for a computer without PyTorch.
        """
        if name == "torch" and any(map(_is_being_imported, ("tvm_ffi", "tvm"))):
            raise ModuleNotFoundError("PyTorch is left out while TVM is imported", name=name)


def _is_being_imported(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def import_tvm_without_torch() -> None:
    """Let this process, and those that it spawns, import TVM without PyTorch."""
    if not any(isinstance(finder, WithoutTorch) for finder in sys.meta_path):
        sys.meta_path.insert(0, WithoutTorch())
