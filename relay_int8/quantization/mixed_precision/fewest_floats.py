"""The fewest layers to leave in float for a demand to hold, found with few measurements.

Layers go to float in the order of the harm that their integers do: one, two, four, ... until the
demand holds, then between the last two numbers by bisection. Layers of the found ones go back to
integers, many multiplications first, in halves, where the demand holds without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

RETURNS = 8  # attempts to bring layers back

Holds = Callable[[Sequence[str]], bool]


def fewest_floats(
    order: Sequence[str], macs: Mapping[str, int], holds: Holds
) -> tuple[str, ...] | None:
    """Return the layers to leave in float, or None if the demand does not hold with all of them.

    Parameters
    ----------
    order
        All layers, the most harmful first.
    macs
        Layer -> its multiplications: what leaving it in float costs.
    holds
        Measures whether the demand holds with some layers in float; may be asked twice. The last
        ones that it holds for are what is returned.
    """
    if holds(()):
        return ()
    size = _least_prefix(order, holds)
    if size is None:
        return None
    # The last one stays: without it the demand was measured not to hold.
    others = sorted(order[: size - 1], key=lambda name: -macs[name])
    return _without_needless(order[:size], others, holds)


def _least_prefix(order: Sequence[str], holds: Holds) -> int | None:
    """Return how many of the first layers suffice, where one fewer does not."""
    low, high = 0, 1
    while not holds(order[:high]):
        if high >= len(order):
            return None
        low, high = high, min(2 * high, len(order))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(order[:middle]) else (middle, high)
    return high


def _without_needless(
    floats: Sequence[str], others: Sequence[str], holds: Holds
) -> tuple[str, ...]:
    """Return ``floats`` without those of ``others`` that the demand does not need."""
    chunks = [others] if others else []
    for _ in range(RETURNS):
        if not chunks:
            break
        chunk = chunks.pop(0)
        fewer = [name for name in floats if name not in chunk]
        if holds(fewer):
            floats = fewer
        elif len(chunk) > 1:
            half = len(chunk) // 2
            chunks += [chunk[:half], chunk[half:]]
    return tuple(floats)
