"""Expressions that read a value several times, and compute it once.

Without names such an expression is a tree, in which a square of a square has four copies of what is
squared: TVM's passes visit every one.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr


class Steps:
    """Values that an expression reads several times, each computed once."""

    def __init__(self) -> None:
        self._held: list[tuple[tirx.Var, Expr]] = []

    def hold(self, value: Expr) -> Expr:
        """Return a name of ``value``."""
        var = tirx.Var(f"t{len(self._held)}", str(value.ty.dtype))
        self._held.append((var, value))
        return var

    def then(self, result: Expr) -> Expr:
        """Return ``result`` behind the values that it reads."""
        for var, value in reversed(self._held):
            result = tirx.Let(var, value, result)
        return result
