"""Run the kernels of one family of ``tests.cuda.ptx.families`` on the first GPU: a program.

    python -m tests.gpu.launches FAMILY ARCHITECTURE

Schedules are those for ARCHITECTURE; code is made for the GPU that is there. The last line is JSON:
what was wrong, by kernel.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from relay_int8.machine.gpu import installed_gpus
from schedules.cuda.toolchain.architectures import choose_architectures
from schedules.cuda.toolchain.compiler import fat_binaries
from tests.cuda.ptx.families import FAMILIES
from tests.cuda.run_template import Built, scheduled


class Launcher:
    """Kernels on a GPU, called as the emulator calls them."""

    def __init__(self, mod: tvm.IRModule, target: Target) -> None:
        architectures = choose_architectures("native", installed_gpus().architectures[:1])
        with target, fat_binaries(architectures):
            self._built = tvm.compile(mod, target=target)

    def launch(
        self, name: str, func: tirx.PrimFunc, arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Run the kernel on copies of its arguments; return the copies."""
        device = tvm.cuda(0)
        tensors = [tvm.runtime.tensor(np.ascontiguousarray(array), device) for array in arrays]
        self._built[name.removesuffix("_kernel")](*tensors)
        device.sync()
        return [tensor.numpy() for tensor in tensors]


def wrong(family: str, architecture: str) -> dict[str, str]:
    """Return what is not as it must be, by kernel."""
    item = FAMILIES[family]
    target = Target({"kind": "cuda", "arch": architecture}, host="llvm")
    mod = scheduled(item.cases, target)
    built = Built(
        cases=item.cases, target=target, mod=mod, source="", emulator=Launcher(mod, target)
    )
    found = {}
    for name in item.cases:
        try:
            item.check(built, name)
        except (AssertionError, RuntimeError) as error:
            found[name] = str(error)[:500]
    return found


if __name__ == "__main__":
    print(json.dumps(wrong(*sys.argv[1:])))
