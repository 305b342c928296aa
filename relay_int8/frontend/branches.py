"""Branches by a condition that is computed: both are computed, and one is chosen when it runs."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax

from relay_int8.graph.dataflow import dtype, shape


def selected(
    bb: relax.BlockBuilder,
    condition: relax.Expr,
    then: Sequence[relax.Expr],
    otherwise: Sequence[relax.Expr],
) -> list[relax.Expr]:
    """Return the results of two branches, those of one where the condition holds.

    Parameters
    ----------
    bb
        Binds expressions.
    condition
        A bool of one element.
    then, otherwise
        What each branch gives, result by result.

    Raises
    ------
    NotImplementedError
        The two differ in number, shape or type: what depends on values has no one type.
    """
    kinds = [[(dtype(value), shape(value)) for value in values] for values in (then, otherwise)]
    if kinds[0] != kinds[1]:
        texts = [", ".join(f"{kind} {list(dims)}" for kind, dims in side) for side in kinds]
        raise NotImplementedError(
            f"it chooses by values of the input between {texts[0]} and {texts[1]}; branches that "
            "give the same shapes are both computed: export it without the choice"
        )
    scalar = bb.emit(relax.op.reshape(condition, ()))
    choices = zip(then, otherwise, strict=True)
    return [bb.emit(relax.op.where(scalar, one, other)) for one, other in choices]
