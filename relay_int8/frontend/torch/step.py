"""What a converter of a PyTorch operator gets: one node, its operands already in Relax."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tvm import relax

from relay_int8.graph.dataflow import dtype, shape

T = TypeVar("T")

DEPENDS_ON_VALUES = "a number that depends on values of the input"


@dataclass(frozen=True)
class ComplexTensor:
    """A tensor of complex numbers: its real and its imaginary parts, float32."""

    real: relax.Expr
    imaginary: relax.Expr


@dataclass(frozen=True)
class TorchStep:
    """Operands and arguments of one PyTorch node, as its converter reads them.

    Parameters
    ----------
    arguments
        What the file gives, by the names of torch's schema; tensors as Relax expressions, those of
        complex numbers as ComplexTensor.
    emit
        Binds a value on the way to the result, under ``<node>/<given name>``.
    operator
        Torch's name of the operator, without its namespace.
    """

    arguments: Mapping[str, Any]
    emit: Callable[[str, relax.Expr], relax.Var]
    operator: str

    @property
    def x(self) -> relax.Expr:
        """Return the first operand."""
        return self.tensor("self" if "self" in self.arguments else "input")

    @property
    def rank(self) -> int:
        """Return how many axes the first operand has."""
        return len(shape(self.x))

    def tensor(self, name: str) -> relax.Expr:
        """Return an operand that must be there."""
        tensor = self.optional_tensor(name)
        if tensor is None:
            raise ValueError(f"it has no {name}")
        return tensor

    def optional_tensor(self, name: str) -> relax.Expr | None:
        """Return an operand, or None where it is left out."""
        argument = self.arguments.get(name)
        if argument is not None and not isinstance(argument, relax.Expr):
            raise ValueError(f"its {name} is {argument}, no tensor")
        return argument

    def operand(self, name: str) -> relax.Expr:
        """Return a tensor, or a number as a constant of the first tensor's type."""
        argument = self.arguments.get(name)
        return (
            self.number(argument) if isinstance(argument, bool | int | float) else self.tensor(name)
        )

    def tensors(self, name: str = "tensors") -> list[relax.Expr]:
        """Return a list of operands."""
        tensors = self.arguments.get(name)
        if not isinstance(tensors, list) or not tensors:
            raise ValueError(f"it has no {name}")
        if not all(isinstance(value, relax.Expr) for value in tensors):
            raise ValueError(f"its {name} are not all tensors")
        return tensors

    def integer(self, name: str, default: int | None = None) -> int:
        """Return a whole number; without a default it must be there."""
        return self._given(name, default, int)

    def real(self, name: str, default: float | None = None) -> float:
        """Return a number."""
        number = self.arguments.get(name)
        if type(number) is int:
            return float(number)
        return self._given(name, default, float)

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value."""
        return self._given(name, default, bool)

    def text(self, name: str, default: str) -> str:
        """Return a text."""
        return self._given(name, default, str)

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """Return whole numbers."""
        argument = self.arguments.get(name)
        argument = default if argument is None else argument
        values = [argument] if type(argument) is int else argument
        if values is None:
            raise ValueError(f"it has no {name}")
        if any(isinstance(value, relax.Expr) for value in values):
            raise NotImplementedError(f"one of its {name} is {DEPENDS_ON_VALUES}")
        if isinstance(values, str) or any(type(value) is not int for value in values):
            raise ValueError(f"its {name} is {values}, not whole numbers")
        return list(values)

    def sizes(self, name: str, rank: int, default: int | None = None, least: int = 1) -> list[int]:
        """Return one whole number an axis; a single one counts for all."""
        integers = self.integers(name, None if default is None else [default])
        values = integers * rank if len(integers) == 1 else integers
        if len(values) != rank or min(values) < least or max(values) >= 2**31:
            raise ValueError(
                f"its {name} is {integers}; expected {rank} numbers of at least {least}"
            )
        return values

    def axis(self, name: str = "dim", default: int | None = None, rank: int | None = None) -> int:
        """Return an axis of the first operand, counted from the front."""
        rank = self.rank if rank is None else rank
        return axis_of(self.integer(name, default), rank)

    def number(self, value: float) -> relax.Expr:
        """Return a constant of the first operand's type."""
        kind = dtype(self.x)
        if not kind.startswith("float") and value != int(value):
            raise NotImplementedError(f"{value} and integers of type {kind}")
        return relax.const(value, kind)

    def _given(self, name: str, default: T | None, kind: type[T]) -> T:
        argument = self.arguments.get(name)
        argument = default if argument is None else argument
        if isinstance(argument, relax.Expr):
            raise NotImplementedError(f"its {name} is {DEPENDS_ON_VALUES}")
        if type(argument) is not kind:
            raise ValueError(f"its {name} is {argument}, not of type {kind.__name__}")
        return argument


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise ValueError(f"axis {axis} of an operand with {rank} axes")
    return axis % max(rank, 1)


Result = relax.Expr | ComplexTensor | Sequence[relax.Expr | ComplexTensor] | int | float
Converter = Callable[[TorchStep], Result]
"""Returns an operator's result, or the first ones of several as a list; raises ValueError where a
node does not fit the operator, NotImplementedError where we lack something, each with what was
found."""
