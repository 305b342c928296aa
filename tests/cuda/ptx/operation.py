"""What an arithmetic instruction is to the table: types of its operands, and a function of arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cuda.ptx.types import DTYPES

Array = Any  # ndarray or scalar of NumPy
Modifiers = tuple[str, ...]


@dataclass(frozen=True)
class Operation:
    """The types of the operands, and the function of arrays that gives the result."""

    sources: tuple[str, ...]
    compute: Callable[..., Array]
    result: str


def require_known(modifiers: Modifiers, *allowed: str) -> None:
    if set(modifiers) - set(allowed):
        raise ValueError(f"{modifiers} is not among {allowed}")


def is_float(dtype: str) -> bool:
    return DTYPES[dtype].kind == "f"
