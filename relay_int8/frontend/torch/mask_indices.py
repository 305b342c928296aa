"""Read what is written at the places where a mask is true as what is written by that mask.

    Before:  rows, columns = where(mask);  y = index_put(x, [rows, columns], values)
    After:   y = index_put(x, [mask], values)

How many places there are depends on the input, so that they are no tensor of a known shape. The
same holds for ``nonzero``, and for its columns as a decomposed program takes them apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from relay_int8.frontend.torch.program import Program, ProgramNode, Ref

PLACES = ("aten.where", "aten.nonzero_numpy")
"""Operators of one operand that give the indices of its true elements, a tensor for each axis."""
TRUTHS = frozenset(
    f"aten.{name}"
    for name in (
        *("all", "any", "eq", "ge", "gt", "isfinite", "isinf", "isnan", "le", "logical_and"),
        *("logical_not", "logical_or", "logical_xor", "lt", "ne"),
    )
)
BITWISE = frozenset(f"aten.bitwise_{name}" for name in ("and", "not", "or", "xor"))


def written_by_masks(program: Program) -> tuple[ProgramNode, ...]:
    """Return the nodes of a program; those that write at all places of a mask read the mask.

    Nodes that change a tensor in place between the two leave the later one as it is: the mask may
    be another one by then.
    """
    nodes = program.nodes
    makers = {name: node for node in nodes for name in node.outputs}
    order = {node.name: place for place, node in enumerate(nodes)}
    rewritten = []
    for place, node in enumerate(nodes):
        source = _source(node, makers)
        if source is not None:
            between = nodes[order[source.name] + 1 : place]
            (mask,) = source.arguments.values()
            is_whole = len(program.sizes.get(mask.name, ())) == len(node.arguments["indices"])
            is_same = is_whole and not any(each.changes for each in between)
            if is_same and _is_truth(mask, makers):
                node = replace(node, arguments={**node.arguments, "indices": [mask]})
        rewritten.append(node)
    return tuple(rewritten)


def _source(node: ProgramNode, makers: Mapping[str, ProgramNode]) -> ProgramNode | None:
    """Return the node that finds the places that a node writes at, all axes in their order."""
    indices = node.arguments.get("indices")
    if node.operator != "aten.index_put" or not isinstance(indices, list) or not indices:
        return None
    found = [_column(index, makers) for index in indices]
    first = found[0]
    if first is None:
        return None
    wanted = [(first[0].name, axis) for axis in range(len(found))]
    return first[0] if [each and (each[0].name, each[1]) for each in found] == wanted else None


def _column(index: object, makers: Mapping[str, ProgramNode]) -> tuple[ProgramNode, int] | None:
    """Return the node that indices along one axis are of, and that axis."""
    maker = _maker(index, makers)
    if maker is None or not isinstance(index, Ref):
        return None
    if maker.operator in PLACES and len(maker.arguments) == 1:
        return maker, maker.outputs.index(index.name)
    if maker.operator != "aten.squeeze" or maker.arguments.get("dim") not in (1, [1]):
        return None
    cut = _maker(maker.arguments["self"], makers)
    if cut is None or cut.operator != "aten.slice" or cut.arguments.get("dim") != 1:
        return None
    source, axis = _maker(cut.arguments["self"], makers), cut.arguments.get("start", 0)
    is_places = source is not None and source.operator == "aten.nonzero"
    is_column = isinstance(axis, int) and cut.arguments.get("end") == axis + 1
    return (source, axis) if source is not None and is_places and is_column else None


def _is_truth(value: object, makers: Mapping[str, ProgramNode]) -> bool:
    """Say whether a value is certainly one of booleans."""
    maker = _maker(value, makers)
    if maker is None:
        return False
    operands = (each for each in maker.arguments.values() if isinstance(each, Ref))
    return maker.operator in TRUTHS or (
        maker.operator in BITWISE and all(_is_truth(each, makers) for each in operands)
    )


def _maker(value: object, makers: Mapping[str, ProgramNode]) -> ProgramNode | None:
    return makers.get(value.name) if isinstance(value, Ref) else None
