"""What a converter of an MXNet operator gets: one node, its operands already in Relax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import relax

from relay_int8.frontend.mxnet.attributes import Attributes
from relay_int8.graph.dataflow import dtype


@dataclass(frozen=True)
class MxnetStep:
    """Operands and attributes of one MXNet node, as its converter reads them.

    Parameters
    ----------
    inputs
        Its operands.
    attributes
        Its attributes.
    emit
        Binds a value on the way to the result, under ``<node>/<given name>``.
    """

    inputs: Sequence[relax.Expr]
    attributes: Attributes
    emit: Callable[[str, relax.Expr], relax.Expr]

    @property
    def x(self) -> relax.Expr:
        """Return the first operand."""
        if not self.inputs:
            raise ValueError("it has no inputs")
        return self.inputs[0]

    def operands(self, *names: str) -> list[relax.Expr]:
        """Return the operands, which must be as many as their names."""
        if len(self.inputs) != len(names):
            raise ValueError(f"it has {len(self.inputs)} inputs, not {', '.join(names)}")
        return list(self.inputs)

    def number(self, value: float) -> relax.Expr:
        """Return a constant of the first operand's type."""
        return relax.const(value, dtype(self.x))


Converter = Callable[[MxnetStep], "relax.Expr | Sequence[relax.Expr]"]
"""Returns an operator's result, or one for each of several; raises ValueError where a node does not
fit the operator, NotImplementedError where we lack something, each with what was found."""
