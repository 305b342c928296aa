"""Whether values are what annotations say; of dataclasses, whose fields a file filled, strictly."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

Record = TypeVar("Record")


def filled(kind: Callable[..., Record], values: object, title: str = "it") -> Record:
    """Return a dataclass of what a JSON object says.

    Parameters
    ----------
    kind
        The dataclass.
    values
        Name -> value of its fields; those with a default may be absent.
    title
        What the object is called in messages.

    Raises
    ------
    ValueError
        It is no object, or lacks a field, or has another.
    """
    if not isinstance(values, dict):
        raise ValueError(f"{title} is a {type(values).__name__}, an object with fields expected")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    needed = [name for name, field in fields.items() if not _has_default(field)]
    for verb, names in (
        ("lacks", [name for name in needed if name not in values]),
        ("has the unknown fields", [name for name in values if name not in fields]),
    ):
        if names:
            raise ValueError(f"{title} {verb} {', '.join(names)}")
    return kind(**values)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return any(
        default is not dataclasses.MISSING for default in (field.default, field.default_factory)
    )


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
        if not fits(value, expected, _fits_part):
            raise ValueError(f"{name} is {str(value)[:60]!r}, which is none of its values")


@cache
def _types(kind: type[object]) -> dict[str, Any]:
    return get_type_hints(kind)


def fits(value: Any, expected: Any, fits_part: Callable[[Any, Any], bool]) -> bool:
    """Whether a value is what an annotation says.

    Parameters
    ----------
    value, expected
        Any value, and an annotation that was evaluated.
    fits_part
        The same of what is neither a union nor a mapping, where readers differ in what they allow.
    """
    expected = _named_type(expected)
    origin, arguments = get_origin(expected), get_args(expected)
    if expected is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, each, fits_part) for each in arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entries = isinstance(value, Mapping)
        return entries and all(fits(each, arguments[-1], fits_part) for each in value.values())
    return fits_part(value, expected)


def _named_type(expected: Any) -> Any:
    """Return what an annotation stands for where it is an alias of Python 3.12 (``type X = ...``).

    NumPy's ``NDArray`` is one since NumPy 2.5.
    """
    alias = get_origin(expected) or expected
    if not hasattr(alias, "__value__"):
        return expected
    arguments = get_args(expected)
    return alias.__value__[arguments] if arguments else alias.__value__


def _fits_part(value: Any, expected: Any) -> bool:
    origin, arguments = get_origin(expected), get_args(expected)
    if origin is Literal:
        return value in arguments
    if origin is tuple:
        return isinstance(value, tuple) and _fit_all(value, arguments)
    if origin is Sequence:  # of JSON a list
        return isinstance(value, list | tuple) and _fit_all(tuple(value), (*arguments, ...))
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
        return all(fits(value, arguments[0], _fits_part) for value in values)
    pairs = zip(values, arguments, strict=False)
    return len(values) == len(arguments) and all(fits(*pair, _fits_part) for pair in pairs)
