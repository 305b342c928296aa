"""Padding by a constant, by the edge, or by reflection."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group, adds_values, pad_value
from relay_int8.operators.channels import keeps_channels
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array, Holds

MOVES = {"constant": "pad", "replicate": "edge", "reflect": "reflect"}
"""Mode of the operator -> the move it is."""


class Pad(Move):
    """A constant other than zero gives the result parameters of its own."""

    kind = "pad"

    def refusal(self, group: Group) -> str | None:
        """Say where mode or widths are none that kernels have."""
        mode, value = group.root.attrs.pad_mode, pad_value(group)
        if mode not in MOVES:
            return f"it pads with {mode}; only a constant, edge and reflect are supported"
        if not math.isfinite(value):
            return f"it pads with {value}, which no integer stands for"
        widths = [int(width) for width in group.root.attrs.pad_width]
        sizes = dataflow.shape(group.inputs[0])
        for size, *both in zip(sizes, widths[::2], widths[1::2], strict=True):
            if mode == "reflect" and max(both) > 0 and max(both) >= size:
                return f"it mirrors {max(both)} elements of {size}"
        return "it has negative widths" if min(widths) < 0 else None

    def move_of(self, group: Group) -> str:
        """Return the move of the mode."""
        return MOVES[group.root.attrs.pad_mode]

    def arguments(self, group: Group) -> tuple[int, ...]:
        """Return the widths in front."""
        return tuple(int(width) for width in group.root.attrs.pad_width)[::2]

    def fill(self, group: Group) -> float:
        """Return the constant."""
        return pad_value(group)

    def keeps_range(self, group: Group) -> bool:
        """Say whether nothing is added that the input's parameters may lack."""
        return not adds_values(group)

    def lends_range(self, group: Group) -> bool:
        """Say whether it has a range of its own: its input had better have it too."""
        return adds_values(group)

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return its input where nothing but zero is added."""
        return group.inputs if not adds_values(group) and keeps_channels(group) else ()

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at input and constant."""
        fits = not adds_values(group) or holds(np.array(pad_value(group)))
        return fits and super().passes_sign(group, known, holds)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        width = [int(size) for size in group.root.attrs.pad_width]
        widths = list(zip(width[::2], width[1::2], strict=True))
        move: Any = self.move_of(group)
        if move == "pad":
            return np.pad(xs[0], widths, constant_values=pad_value(group))
        return np.pad(xs[0], widths, mode=move)
