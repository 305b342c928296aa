"""Inputs to time a network with, and which tensor each kernel's time belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from relay_int8.artifact import TensorInfo
    from relay_int8.build import KernelCall


def random_inputs(infos: Sequence[TensorInfo]) -> dict[str, np.ndarray[Any, Any]]:
    """Return inputs of the right shapes and types, the same in every call; an open batch is 1.

    Floats are normally distributed, integers cover their type.
    """
    generator = np.random.default_rng(0)
    arrays = {}
    for info in infos:
        shape = tuple(1 if size < 0 else size for size in info.shape)
        dtype = np.dtype(info.dtype)
        if dtype.kind == "f":
            arrays[info.name] = generator.standard_normal(shape).astype(dtype)
        elif dtype.kind == "b":
            arrays[info.name] = generator.integers(0, 2, shape).astype(dtype)
        else:
            limits = np.iinfo(dtype)
            arrays[info.name] = generator.integers(limits.min, limits.max, shape, dtype, True)
    return arrays


def times_by_tensor(
    calls: Iterable[KernelCall], kernels: Iterable[tuple[str, float]]
) -> dict[str, float]:
    """Return the microseconds of each tensor's kernel.

    Parameters
    ----------
    calls
        Of the compiled network, in the order of execution.
    kernels
        What :meth:`relay_int8.module.Module.profile` gave. A call that has become a view (a
        reshape) is not among them, and takes no time.
    """
    found: dict[str, float] = {}
    running = iter(calls)
    for name, time_us in kernels:
        call = next((call for call in running if call.function == name), None)
        if call is not None:
            found[call.tensor] = found.get(call.tensor, 0.0) + time_us
    return found
