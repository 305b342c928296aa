"""Parts of an input that are read apart, such as stacked states, have ranges of their own.

    states (input) -+- slice -> layer          the output of a recurrent layer, below 1
                    +- slice -> product        its memory, with tens

In bytes a slice has the scale of what it is cut from, and the small parts would have few steps. In
float it costs nothing but its bytes, and what reads it rounds it by its own range. Parts that a
concat joins again are pixels or channels of one tensor, which has one range.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import MOVES, Group, readers_of

REASON = "it is one of several parts of an input that are read apart: each has its own range"
TURNS = ("reshape", "transpose")


def part_reasons(groups: Sequence[Group], inputs: Collection[relax.Var]) -> dict[str, str]:
    """Return the slices that cut an input into such parts, by name, and why.

    Parameters
    ----------
    groups
        Of the network, in their order.
    inputs
        What the network takes.
    """
    readers = readers_of(groups)
    reasons: dict[str, str] = {}
    for var in inputs:
        parts = _parts(var, readers)
        slices = [group.output for group in parts if group.kind == "slice"]
        if len(slices) > 1 and not _are_joined(slices, groups):
            reasons |= {group.name: REASON for group in parts}
    return reasons


def _parts(var: relax.Var, readers: dict[relax.Var, list[Group]]) -> list[Group]:
    """Return the slices that read a tensor, and what turns it before; none if others read it."""
    found = readers.get(var, [])
    if len(found) == 1 and found[0].kind in TURNS and found[0].activation is None:
        behind = _parts(found[0].output, readers)
        return [found[0], *behind] if behind else []
    return found if all(_is_part(group) for group in found) else []


def _is_part(group: Group) -> bool:
    if group.kind != "slice" or group.activation is not None:
        return False
    return all(step == 1 for step in dataflow.slice_steps(group.root)[1])


def _are_joined(slices: Sequence[relax.Var], groups: Sequence[Group]) -> bool:
    """Whether a concat reads two of some slices, moved or as they are."""
    sources = {var: {var} for var in slices}
    for group in groups:
        if group.kind not in MOVES or group.output in sources:
            continue
        found: set[relax.Var] = set().union(*(sources.get(var, set()) for var in group.inputs))
        if group.kind == "concat" and len(found) > 1:
            return True
        sources[group.output] = found
    return False
