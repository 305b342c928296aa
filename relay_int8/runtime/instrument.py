"""Watching what TVM's virtual machine calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm_ffi

BUILTIN = "vm.builtin."  # begins the names of the virtual machine's own functions


@contextmanager
def instrumented(machine: tvm_ffi.Module, note: Callable[..., Any]) -> Iterator[None]:
    """Have ``note`` called around each call that a virtual machine makes in this context.

    It is given the function, its name, whether the call is to come, its result, its arguments.
    """
    machine["set_instrument"](tvm_ffi.convert(note))
    try:
        yield
    finally:
        machine["set_instrument"](None)
