"""Inputs to time a network with, and the times of its kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from relay_int8.argument_types import checked
from relay_int8.runtime.instrument import BUILTIN, instrumented

if TYPE_CHECKING:
    from relay_int8.data.tensor_info import TensorInfo


@checked
def random_inputs(infos: Sequence[TensorInfo], batch: int = 1) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs of the right shapes and types, the same in every call; ``batch`` if it is open.

    Floats are normally distributed, bytes cover their type. Wider integers are valid indices where
    the network indexes something by them, else 0 or 1, as masks are.
    """
    generator = np.random.default_rng(0)
    arrays = {}
    for info in infos:
        shape = tuple(batch if size < 0 else size for size in info.shape)
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            arrays[info.name] = generator.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b":
            arrays[info.name] = generator.integers(0, 2, shape).astype(dtype)
        else:
            low, high = _integers(info)
            arrays[info.name] = generator.integers(low, high, shape, dtype, True)
    return arrays


def _integers(info: TensorInfo) -> tuple[int, int]:
    """Return the lowest and the highest integer to draw for an input."""
    limits = np.iinfo(info.dtype)
    if info.index_range is not None:
        low, high = info.index_range
        first = max(low, min(0, high), int(limits.min))  # from 0 on, where that is valid
        return first, min(high, int(limits.max))
    return (int(limits.min), int(limits.max)) if limits.bits == 8 else (0, 1)


def kernel_times(
    machine: tvm_ffi.Module,
    arguments: Sequence[Any],
    repeats: int,
    wait: Callable[[], None] = lambda: None,
) -> list[tuple[str, float]]:
    """Return each kernel in the order of execution, with the median of its microseconds.

    Parameters
    ----------
    machine
        A virtual machine of TVM's with its network.
    arguments
        Of ``main``, on the machine's device.
    repeats
        Runs.
    wait
        Returns when the device has done what it was asked for.
    """
    names: list[str] = []
    times_ns: list[int] = []

    def _note(_func: Any, name: str, before: bool, *_values: Any) -> None:
        if not name.startswith(BUILTIN):
            wait()
            if before:
                names.append(name)
            times_ns.append(time.perf_counter_ns())

    with instrumented(machine, _note):
        for _ in range(repeats):
            machine["main"](*arguments)
    ticks = np.array(times_ns).reshape(repeats, -1, 2)
    medians_us = np.median(ticks[:, :, 1] - ticks[:, :, 0], axis=0) / 1e3
    return list(zip(names, medians_us.tolist(), strict=False))
