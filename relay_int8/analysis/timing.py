"""Inputs to time a network with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from relay_int8.artifact import TensorInfo


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
