"""Run a compiled network and look at every tensor its kernels write, in logical shape."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from tvm.relax import VMInstrumentReturnKind

from relay_int8.compiler.build import Built, virtual_machine
from relay_int8.compiler.kernel_calls import KernelCall
from schedules.layout import LAYOUTS
from schedules.spec import Concat, Move


def _may_be_view(call: KernelCall) -> bool:
    return isinstance(call.spec, Concat | Move)


def run_built(built: Built, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of all kernel calls by their names, and the outputs as "outputs:<i>".

    A move that has become a view, or a concat that its inputs were written into, is never called
    and is not among them.
    """
    machine = virtual_machine(built)
    pending = list(built.calls)
    found: dict[str, np.ndarray] = {}

    def note(_func: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
        places = [i for i, call in enumerate(pending) if call.function == name]
        if not before and places and all(_may_be_view(call) for call in pending[: places[0]]):
            del pending[: places[0]]
            call = pending.pop(0)
            if call.spec is not None:
                layout, dims = LAYOUTS[call.layouts[-1]], call.spec.shape("y")
                found[call.name] = layout.unpack(arguments[-1].numpy().copy(), dims)
        return VMInstrumentReturnKind.NO_OP

    machine.set_instrument(note)
    results = machine["main"](*(tvm.runtime.tensor(array) for array in inputs.values()))
    missed = [call.name for call in pending if not _may_be_view(call)]
    assert not missed, f"never called: {missed}"
    outputs = [results] if isinstance(results, tvm.runtime.Tensor) else list(results)
    return found | {f"outputs:{i}": output.numpy() for i, output in enumerate(outputs)}
