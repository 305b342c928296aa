"""Whether the fields of a dataclass that a file filled are of the types that it says."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def require_types(record: Any) -> None:
    """Refuse a record whose file held something else; JSON keeps no types but its own.

    Parameters
    ----------
    record
        A dataclass of numbers, texts, tuples, mappings and others of its kind. An integer is a
        float too, a truth value is no integer.

    Raises
    ------
    ValueError
        Naming the first field with a value of another type.
    """
    for name, expected in _types(type(record)).items():  # type: ignore[arg-type]
        value = getattr(record, name)
        if not _fits(value, expected):
            raise ValueError(f"{name} is {str(value)[:60]!r}, which is none of its values")


@cache
def _types(kind: type[object]) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, expected: Any) -> bool:
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in arguments)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _fit_all(value, arguments)
    if origin is not None:  # a mapping, of the kinds that files fill
        entries = isinstance(value, Mapping)
        return entries and all(_fits(each, arguments[-1]) for each in value.values())
    if isinstance(expected, type) and dataclasses.is_dataclass(expected):
        if not isinstance(value, expected):
            return False
        require_types(value)
        return True
    if expected is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if expected is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, expected)


def _fit_all(values: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    if arguments[-1:] == (Ellipsis,):
        return all(_fits(value, arguments[0]) for value in values)
    return len(values) == len(arguments) and all(map(_fits, values, arguments))
