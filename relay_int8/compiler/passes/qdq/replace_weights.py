"""Give layers other weights and biases.

    Before:  y = conv2d(x, w) + b
    After:   y = conv2d(x, w') + b'

Place:  before InsertQdq: what searches for better constants hands them over here.
Exact:  as the new constants are. A layer without bias that gets one keeps its result's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy.typing as npt
import tvm
from tvm import IRModule

from relay_int8.compiler.passes.qdq.layer_constants import with_constants
from relay_int8.graph.groups import find_groups

Array = npt.NDArray[Any]


@tvm.transform.module_pass(opt_level=0, name="ReplaceWeights")
class ReplaceWeights:
    """Give layers other weights and biases.

    Parameters
    ----------
    weights
        Layer -> weights, shaped as its own.
    biases
        Layer -> (channels,) bias.
    separate
        Additions that are layers of their own (``find_groups``).
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        biases: Mapping[str, Array],
        separate: Collection[str] = (),
    ) -> None:
        self._weights = weights
        self._biases = biases
        self._separate_adds = separate

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with the new constants; ``mod`` itself is left alone."""
        func = mod["main"]
        layers = [
            group for group in find_groups(func, self._separate_adds) if group.weight is not None
        ]
        return with_constants(func, layers, self._weights, self._biases)
