"""Reshape, permutation, reshape and a crop that together are one rearrangement of an image.

    channel shuffle, depth to space, space to depth, the interleaving of a transposed convolution

The axes of the image are cut into digits (row 13 of 20 as 6 and 1 of 10 x 2), the digits are
permuted, and those of each axis of the result are joined again. Chains that do not cut and join at
the borders of axes are left as they are, and so are those whose steps something else reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow

Array = np.ndarray[Any, np.dtype[Any]]
RANK = 4


@dataclass(frozen=True)
class ShuffleSubgraph:
    """``members`` compute the last of them from ``source``, the batch left where it is.

    ``digits`` are the extents that channels, rows and columns of the source are cut into, ``axes``
    their order in the result, ``joined`` its channels, rows and columns, ``begins`` where the crop
    of those begins.
    """

    source: relax.Var
    members: tuple[tuple[relax.Var, relax.Call], ...]
    digits: tuple[int, ...]
    axes: tuple[int, ...]
    joined: tuple[int, ...]
    begins: tuple[int, ...]

    def __call__(self, x: Array) -> Array:
        """Return the rearranged ``x``, (n, c, h, w)."""
        turned = x.reshape(len(x), *self.digits).transpose(0, *(1 + axis for axis in self.axes))
        sizes = dataflow.shape(self.members[-1][0])[1:]
        cut = (slice(b, b + size) for b, size in zip(self.begins, sizes, strict=True))
        return np.ascontiguousarray(turned.reshape(len(x), *self.joined)[:, *cut])


def find_shuffles(
    values: Mapping[relax.Var, relax.Expr],
    readers: Mapping[relax.Var, list[relax.Var]],
    results: set[relax.Var],
) -> list[ShuffleSubgraph]:
    """Return the rearrangements among ``values`` (in topological order), none overlapping."""

    def _follower(var: relax.Var, operator: str) -> relax.Var | None:
        if len(readers[var]) != 1 or var in results:
            return None
        reader = readers[var][0]
        return reader if dataflow.operator(values[reader]) == operator else None

    shuffles: list[ShuffleSubgraph] = []
    taken: set[relax.Var] = set()
    for var, value in values.items():
        if dataflow.operator(value) != "permute_dims":
            continue
        chain = [var]
        before = value.args[0]
        if before in values and before not in taken:
            is_cut = dataflow.operator(values[before]) == "reshape"
            if is_cut and _follower(before, "permute_dims") is not None:
                chain.insert(0, before)
        if (joined := _follower(var, "reshape")) is not None:
            chain.append(joined)
            if (cropped := _follower(joined, "strided_slice")) is not None:
                chain.append(cropped)
        shuffle = _shuffle(tuple((member, values[member]) for member in chain))
        if shuffle is not None:
            shuffles.append(shuffle)
            taken.update(member for member, _ in shuffle.members)
    return shuffles


def _shuffle(members: tuple[tuple[relax.Var, relax.Call], ...]) -> ShuffleSubgraph | None:
    """Return what a chain around one permutation is, or None."""
    calls = {dataflow.operator(call): (var, call) for var, call in members}
    source = members[0][1].args[0]
    permuted, call = calls["permute_dims"]
    joined = permuted if len(members) == 1 else members[-1][0]
    begins: tuple[int, ...] = (0,) * (RANK - 1)
    if "strided_slice" in calls:
        first, steps = dataflow.slice_steps(calls["strided_slice"][1])
        if len(first) != RANK or first[0] != 0 or set(steps) != {1}:
            return _shuffle(members[:-1])
        joined, begins = members[-2][0], tuple(first[1:])
    if len(members) == 1 or not isinstance(source, relax.Var):
        return None
    cut = dataflow.shape(call.args[0])
    order = call.attrs.axes
    axes = [int(axis) for axis in order] if order else list(reversed(range(len(cut))))
    shapes = dataflow.shape(source), dataflow.shape(joined)
    if axes[0] != 0 or any(len(shape) != RANK or shape[:1] != cut[:1] for shape in shapes):
        return None
    turned = [cut[axis] for axis in axes]
    if not _meets(cut[1:], shapes[0][1:]) or not _meets(turned[1:], shapes[1][1:]):
        return None
    return ShuffleSubgraph(
        source=source,
        members=members,
        digits=cut[1:],
        axes=tuple(axis - 1 for axis in axes[1:]),
        joined=shapes[1][1:],
        begins=begins,
    )


def _meets(digits: tuple[int, ...] | list[int], extents: tuple[int, ...]) -> bool:
    """Say whether runs of ``digits`` multiply to each of ``extents``."""
    borders = {math.prod(digits[:count]) for count in range(len(digits) + 1)}
    return all(math.prod(extents[:count]) in borders for count in range(len(extents) + 1))
