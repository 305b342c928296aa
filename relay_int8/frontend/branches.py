"""Branches by a computed condition: both are computed, and the condition selects their results.

    Before:  y = if condition then f(x) else g(x)
    After:   y = where(condition, f(x), g(x))

A branch without side effects may be computed in vain. Both have to give tensors of the same shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax

from relay_int8.graph.dataflow import dtype, shape


def select_branch(
    emit: Callable[[relax.Expr], relax.Expr],
    condition: relax.Expr,
    then: Sequence[relax.Expr],
    otherwise: Sequence[relax.Expr],
) -> list[relax.Expr]:
    """Return the results of ``then`` where the condition holds, else those of ``otherwise``.

    The caller binds them under the names of the results.

    Parameters
    ----------
    emit
        Binds the condition to a variable and returns the variable.
    condition
        A truth value of one element.
    then, otherwise
        The results of both branches, one tensor for each result.

    Raises
    ------
    NotImplementedError
        The branches' results differ in number, shape or dtype, or the condition has more than one
        element.
    """
    if dtype(condition) != "bool" or any(extent != 1 for extent in shape(condition)):
        raise NotImplementedError(
            f"a branch by a condition of {list(shape(condition))} {dtype(condition)}, "
            "which is not one truth value"
        )
    if len(then) != len(otherwise):
        raise NotImplementedError(
            f"a branch by a condition that is computed from the model's inputs, of {len(then)} "
            f"results or of {len(otherwise)}"
        )
    for i, (a, b) in enumerate(zip(then, otherwise, strict=True)):
        if shape(a) != shape(b) or dtype(a) != dtype(b):
            raise NotImplementedError(
                "a branch by a condition that is computed from the model's inputs, whose result "
                f"{i} is {list(shape(a))} {dtype(a)} or {list(shape(b))} {dtype(b)}"
            )
    chosen = emit(relax.op.reshape(condition, ())) if shape(condition) else condition
    return [
        a if a.same_as(b) else relax.op.where(chosen, a, b)
        for a, b in zip(then, otherwise, strict=True)
    ]
