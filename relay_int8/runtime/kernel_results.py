"""What each kernel of a network writes, seen while the network runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

from relay_int8.runtime.instrument import BUILTIN, instrumented

See = Callable[[int, Any], None]


def run_watched(
    machine: tvm_ffi.Module,
    arguments: Sequence[Any],
    functions: Sequence[str],
    wait: Callable[[], None],
    see: See,
) -> None:
    """Run a network once, and show what each of its kernel calls wrote.

    Parameters
    ----------
    machine
        A virtual machine of TVM's with its network; CUDA graphs must be off, since what a graph
        replays is not seen.
    arguments
        Of ``main``, on the machine's device.
    functions
        The kernel of each call, in the order of execution; calls that have become views may be
        among them.
    wait
        Returns when the device has done what it was asked for.
    see
        Called with the index in ``functions`` and the tensor that was written, which it may
        overwrite: the kernels that follow read it.
    """
    calls = iter(enumerate(functions))

    def _note(_function: Any, name: str, before: bool, _result: Any, *values: Any) -> None:
        if before or name.startswith(BUILTIN):
            return
        index = next((index for index, function in calls if function == name), None)
        if index is not None:
            wait()
            see(index, values[-1])

    with instrumented(machine, _note):
        machine["main"](*arguments)
