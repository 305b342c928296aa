"""States that a network takes and returns, such as caches of keys and values, are moved in float.

    past (input) -+
    new ----------+- concat -+- moves -> result
                             +- attention, or a layer: reads a quantized copy

In bytes the caller would get back, rounded, the floats that it gave, and the new ones too; a state
that goes through a network again and again would be rounded in each run.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tvm import relax

from relay_int8.graph.group import MOVES, Group

REASON = "the network takes and returns what it moves: that stays as exact as it was given"


def state_reasons(
    groups: Sequence[Group], inputs: Collection[relax.Var], results: Collection[relax.Var]
) -> dict[str, str]:
    """Return the moves between inputs and results, concats among them, by name, and why.

    Parameters
    ----------
    groups
        Of the network, in their order.
    inputs, results
        What the network takes and returns.
    """
    moves = [group for group in groups if group.kind in MOVES and group.activation is None]
    given, returned = set(inputs), set(results)
    for group in moves:
        if not given.isdisjoint(group.inputs):
            given.add(group.output)
    for group in reversed(moves):
        if group.output in returned:
            returned.update(group.inputs)
    return {group.name: REASON for group in moves if group.output in given & returned}
