"""Operands of ONNX nodes that have to be constant: sizes, positions, parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from relay_int8.frontend.importing import SizedByValuesError
from relay_int8.graph.dataflow import constant

Array = np.ndarray[Any, Any]


def known_array(value: Any, subject: str) -> Array:
    """Return a constant operand; NotImplementedError "``subject`` computed, not constant"."""
    array = constant(value)
    if array is None:
        raise NotImplementedError(f"{subject} computed, not constant")
    return array


def known_integers(value: Any, subject: str) -> list[int]:
    """Return the numbers of a constant operand, most often extents; SizedByValuesError else."""
    if constant(value) is None:
        raise SizedByValuesError(f"{subject} computed, not constant")
    return [int(number) for number in known_array(value, subject).reshape(-1)]
