"""Small matrix products that compute coordinates stay in float.

    product -> (moves, sums, functions, other such products) -> positions of grid_sample, indices

Spatial transformers and depth networks turn coordinates by matrices of 2 to 4 rows, thin plates by
some 20. A byte has 256 steps from one end of an image to the other, less than a pixel each only in
small images, and several products in a row add their errors. So few products for an output take
no longer in float than rounding what they read.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import AFFINE, DENSE, MOVES, Group
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.kept_float.linear_groups import SUMS

MOST = 32
"""Products for an output: a thin plate of 20 points has 23, layers of networks mostly more."""

SAMPLED, GRID = "image.grid_sample", "image.affine_grid"
BETWEEN = (*MOVES, *SUMS, AFFINE, GRID, "activation", "div", "max", "min", "mul", "sub", "where")

REASON = (
    "it computes coordinates at which values are read, of a few products each: "
    "bytes would displace them"
)


def coordinate_reasons(groups: Sequence[Group]) -> dict[str, str]:
    """Return such products by name, and why they stay in float."""
    positions: set[relax.Var] = set()
    reasons = {}
    for group in reversed(groups):
        if group.kind == SAMPLED:
            positions.update(var for var in group.inputs if var.same_as(group.root.args[1]))
        elif _is_index(group):
            positions.update(group.inputs)
        elif group.output not in positions:
            continue
        elif group.kind in BETWEEN or operator_of(group).function(group) is not None:
            positions.update(group.inputs)
        elif 0 < _depth(group) <= MOST:
            positions.update(group.inputs)
            reasons[group.name] = REASON
    return reasons


def _is_index(group: Group) -> bool:
    """Whether a group makes integers of floats, by which elements are then chosen."""
    return group.kind == "astype" and dataflow.dtype(group.output).lstrip("u").startswith("int")


def _depth(group: Group) -> int:
    """Return how many products of a matrix product are summed; 0 of any other group."""
    if group.kind == DENSE:
        return int(group.weight_rows.shape[1])
    return 0 if group.kind != "product" or group.product is None else group.product.depth
