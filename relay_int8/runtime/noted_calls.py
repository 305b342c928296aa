"""Runs on a CPU without TVM's virtual machine: the kernel calls of one run are made again.

In each run the virtual machine looks functions up, allocates tensors and frees them, 0.3 to 0.7
microseconds for a kernel. Of a network whose shapes are fixed every run is the same: the same
kernels on the same tensors, but for the memory of the inputs. So the calls of one run are noted,
and machine code of the library (``relay_int8/compiler/thread_team.py``) makes them from a list.
The tensors are kept for that, outputs too: the next run writes into the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm_ffi

from relay_int8.runtime.instrument import BUILTIN, instrumented
from relay_int8.runtime.thread_team import MAKE_CALLS, in_team
from relay_int8.runtime.tvm_runtime import RuntimeDevice

FIXED = {
    BUILTIN + name
    for name in (
        "alloc_storage",
        "alloc_tensor",
        "check_tensor_info",
        "make_tuple",
        "match_shape",
        "null_value",
        "reshape",
    )
}
"""What the virtual machine does in the same way in every run, so that it need not be done again."""

Call = tuple[Any, list[Any]]

_DL_TENSOR, _TENSOR = 7, 70  # what TVM calls the types of such arguments
_HEAD = 24  # bytes of an object in front of its DLTensor


class _Argument(ctypes.Structure):
    """An argument as TVM's functions take it."""

    _fields_ = (("type", ctypes.c_int64), ("value", ctypes.c_void_p))


class _Call(ctypes.Structure):
    """A function object, its arguments and their number."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


class _View(ctypes.Structure):
    """A DLTensor: the address of its memory, and what is the same in every run."""

    _fields_ = (("address", ctypes.c_void_p), ("others", ctypes.c_uint8 * 40))


class NotedCalls:
    """The kernel calls of a run, to be made again.

    Parameters
    ----------
    calls
        Each kernel's function with its tensors.
    inputs
        Tensors among these which hold the inputs, each in memory of its own.
    outputs
        Tensors among these which hold the outputs.
    make
        Makes the calls of a list.
    names
        Of the functions, in order, without those that ``noted_calls`` put around them.
    """

    def __init__(
        self,
        calls: Sequence[Call],
        inputs: Sequence[Any],
        outputs: list[Any],
        make: Callable[..., Any],
        names: Sequence[str],
    ) -> None:
        self.names, self._outputs = tuple(names), outputs
        # Whatever reads an input reads it through a view of its own, whose address is changed.
        self._views: list[list[_View]] = [[] for _ in inputs]
        places = {tensor.data_ptr(): place for place, tensor in enumerate(inputs)}
        arguments = []
        for _, tensors in calls:
            arguments.append((_Argument * len(tensors))())
            for argument, tensor in zip(arguments[-1], tensors, strict=True):
                place = places.get(tensor.data_ptr())
                if place is None:
                    argument.type, argument.value = _TENSOR, tensor.__chandle__()
                    continue
                view = _View.from_address(tensor.__chandle__() + _HEAD)
                self._views[place].append(_View.from_buffer_copy(view))
                argument.type = _DL_TENSOR
                argument.value = ctypes.addressof(self._views[place][-1])
        made = [
            _Call(function.__chandle__(), ctypes.addressof(each), len(each))
            for (function, _), each in zip(calls, arguments, strict=True)
        ]
        table = (_Call * len(made))(*made)
        self._held = calls, arguments, table
        self._make = partial(make, ctypes.c_void_p(ctypes.addressof(table)), len(made))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run on tensors of the same shapes and types; return the outputs, the same every time."""
        for views, tensor in zip(self._views, inputs, strict=True):
            address = tensor.data_ptr()
            for view in views:
                view.address = address
        self._make()
        return self._outputs


def noted_calls(
    library: tvm_ffi.Module,
    machine: tvm_ffi.Module,
    device: RuntimeDevice,
    inputs: Sequence[Any],
    around: Any = None,
) -> NotedCalls | None:
    """Run a network on inputs and note its calls; None if another run may make others.

    Parameters
    ----------
    library
        What ``machine`` runs on.
    machine
        A virtual machine of TVM's on a CPU, whose network has fixed shapes.
    device
        The CPU.
    inputs
        Of ``main``. It runs on copies, so that no two are in the same memory.
    around
        A function of TVM's that is called, without arguments, before and after each of the calls
        when they are made again.
    """
    copies = [device.put(device.get(tensor)) for tensor in inputs]
    calls: list[Call] = []
    names: list[str] = []
    others: list[str] = []

    def _note(function: Any, name: str, before: bool, _result: Any, *values: Any) -> None:
        if not before or name in FIXED:
            return
        tensors = [value for value in values if isinstance(value, tvm_ffi.Tensor)]
        if len(tensors) < len(values) or not library.implements_function(name, query_imports=True):
            others.append(name)
        calls.append((function, tensors))
        names.append(name)

    with instrumented(machine, _note):
        result = machine["main"](*copies)
    outputs = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
    given = {tensor.data_ptr() for tensor in copies}
    returned = any(tensor.data_ptr() in given for tensor in outputs)
    if others or returned or not calls or len(given) < len(copies):
        return None
    make = in_team(library, library.get_function(MAKE_CALLS, query_imports=True))
    if around is not None:
        calls = [each for call in calls for each in ((around, []), call, (around, []))]
    return NotedCalls(calls, copies, outputs, make, names)
