"""Refuse arguments of a public call that cannot be what it wants, before it does anything.

Only what is certain is refused: a value that no part of the annotation could mean. What an
annotation says of functions, arrays and types of other packages is left to who uses them.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

from relay_int8.errors import ConfigError
from relay_int8.field_types import fits

Checked = TypeVar("Checked", bound=Callable[..., Any])
MOST_BYTES = 255  # of a part of a path, on the file systems of Linux, macOS and Windows
ANY_ARRAY = r"ndarray\[tuple\[Any, \.\.\.\], dtype\[Any\]\]|NDArray\[Any\]"  # by NumPy's version
BOOLS = ("bool", "bool_")  # Python's and NumPy's, which is not imported for it
NUMBERS: Mapping[type, type] = {int: Integral, float: Real}


def checked(call: Checked) -> Checked:
    """Make a function, or a class of options, refuse arguments that its annotations rule out.

    Raises
    ------
    ConfigError
        By the call, with the argument, its value and what is expected. Defaults are not looked at,
        and annotations only when an argument is given: nothing is imported for those.
    """
    if isinstance(call, type):
        init = _checked(cast(Any, call).__init__, call.__name__)
        call.__init__ = init  # type: ignore[misc]
        return cast(Checked, call)
    return cast(Checked, _checked(call, call.__name__))


def _checked(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters
    names = inspect.unwrap(function).__globals__

    @wraps(function)
    def _call(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        for name, value in given.items():
            known = parameters.get(name)
            if known is None or value is known.default or not isinstance(known.annotation, str):
                continue
            fault = _fault(value, known.annotation, names)
            if fault:
                expected = _readable(known.annotation, names)
                raise ConfigError(f"{title}: {name} is {fault}; expected {expected}")
        return function(*args, **kwargs)

    return _call


def _fault(value: Any, annotation: str, names: dict[str, Any]) -> str | None:
    expected = _evaluated(annotation, names)
    if not fits(value, expected, _fits_part):
        return f"{str(value)[:60]!r} ({type(value).__name__})"
    is_path = isinstance(value, str) and Path in (expected, *get_args(expected))
    if is_path and (
        "\0" in value or any(len(part.encode()) > MOST_BYTES for part in _parts(value))
    ):
        return f"{value[:60]!r}, which can be no path"
    return None


def _parts(path: str) -> tuple[str, ...]:
    return Path(path.encode(errors="replace").decode()).parts


def _readable(annotation: str, names: dict[str, Any]) -> str:
    """Return an annotation; where it has a name of no class, as what that name stands for."""
    whole = re.sub(r"\b(\w+\.)+", "", str(_evaluated(annotation, names)))
    whole = re.sub(ANY_ARRAY, "ndarray", whole)
    is_alias = not set(re.findall(r"\w+", annotation)) <= {*re.findall(r"\w+", whole)}
    is_known = " | " in whole.removeprefix("Any | ") or "Any" not in whole  # Any: of no public type
    return whole if is_alias and is_known else annotation


def _evaluated(annotation: str, names: dict[str, Any]) -> Any:
    """Return what an annotation means; names that type checkers alone import may be public ones."""
    known = dict(names)
    while True:
        try:
            return eval(annotation, known)
        except NameError as error:
            name = str(error.name)
            known[name] = getattr(import_module("relay_int8"), name, Any)


def _fits_part(value: Any, expected: Any) -> bool:
    origin, arguments = get_origin(expected), get_args(expected)
    if origin is Literal:
        return isinstance(value, tuple({type(each) for each in arguments}))
    if origin is not None:
        return _fits_generic(value, origin, arguments)
    if expected is None or expected is type(None):
        return value is None
    if expected is int or expected is float:
        return _is_number(value, NUMBERS[expected])
    if expected is bool:
        return type(value).__name__ in BOOLS or (_is_number(value, Integral) and value in (0, 1))
    if expected is Path:
        return isinstance(value, str | os.PathLike)  # a call that takes paths alone makes one
    is_abstract = getattr(expected, "_is_protocol", False)
    is_known = isinstance(expected, type) and (
        not is_abstract or getattr(expected, "_is_runtime_protocol", False)
    )
    return not is_known or isinstance(value, expected)


def _is_number(value: Any, kind: type) -> bool:
    """Whether a value is such a number; an integer that fits no 64 bits is none for NumPy."""
    is_wide = isinstance(value, int) and abs(value) >= 2**63
    return isinstance(value, kind) and not isinstance(value, bool) and not is_wide


def _fits_generic(value: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a value is such a collection or function, and what the collection holds fits."""
    if origin is Callable:
        return callable(value)
    if not isinstance(origin, type) or not issubclass(origin, Iterable):
        return True
    if isinstance(value, str | bytes) or not hasattr(value, "__getitem__"):
        return (
            not isinstance(value, str | bytes) and origin is Iterable and hasattr(value, "__iter__")
        )
    if origin is Iterable:
        return True
    if issubclass(origin, tuple) and Ellipsis not in arguments:
        return isinstance(value, tuple | list)
    return _fits_all(value, arguments[0])


def _fits_all(values: Any, expected: Any) -> bool:
    try:
        count = len(values)
    except TypeError:  # a number of NumPy's
        return False
    if isinstance(values, Mapping):
        return False
    return all(fits(values[place], expected, _fits_part) for place in range(count))
