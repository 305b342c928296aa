"""Poolings whose maxima's positions are asked for too compare floats (SegNet, unpooling).

    layer -+- max pooling -> layer
           +- slices, concat -> argmax -> unpooling

Neighbours that differ by less than a step are one byte, and the first of them is taken for the
largest: what unpooling reads would be put where it does not belong. The positions are computed of
floats in any case, so that the layer gives floats, and what was pooled is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import MOVES, Group

REASON = "the positions of its maxima are asked for too: bytes of neighbours are often equal"


def maximum_reasons(groups: Sequence[Group]) -> dict[str, str]:
    """Return the max poolings of tensors that an argmax reads through moves, by name, and why."""
    compared: set[relax.Var] = set()
    for group in reversed(groups):
        is_argmax = dataflow.operator(group.root) == "argmax"
        if is_argmax or (group.kind in MOVES and group.output in compared):
            compared.update(group.inputs)
    return {
        group.name: REASON
        for group in groups
        if group.kind == "max_pool2d" and not compared.isdisjoint(group.inputs)
    }
