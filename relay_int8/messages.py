"""Texts that error messages share: files of another model, long lists of names, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

SHOWN = 5  # names of a list; what a reader takes in at a glance
PIXELS = ("uint8", "float32")
"""Types of a picture's pixels, and of a network that expects them normalized."""
DIGITS = 12  # digits of a hash, wherever one is printed


def other_model(actual: str, expected: str) -> str | None:
    """Say that something of model ``actual`` is not of ``expected``; None if one is not known."""
    if not actual or not expected or actual == expected:
        return None
    return f"made for model {actual[:DIGITS]}, this is {expected[:DIGITS]}"


def few(names: Sequence[str]) -> str:
    """Return the first of ``names``, and how many more there are.

    Examples
    --------
    >>> few(list("abcdefgh"))
    'a, b, c, d, e and 3 more'
    """
    more = len(names) - SHOWN
    if more <= 1:  # the last one is as short as saying so
        return ", ".join(names)
    return f"{', '.join(names[:SHOWN])} and {more} more"


def extents(shape: Sequence[int]) -> str:
    """Return a shape as it is printed; an extent that is open, below zero, is "any".

    Examples
    --------
    >>> extents((-1, 3, 224, 224))
    'any x 3 x 224 x 224'
    """
    return " x ".join("any" if size < 0 else str(size) for size in shape) or "scalar"


def outside(array: np.ndarray[Any, Any], valid: tuple[int, int] | None) -> str | None:
    """Say why the integers of an input are no valid indices, or None; any are where none are."""
    if valid is None or not array.size:
        return None
    low, high = int(array.min()), int(array.max())
    if valid[0] <= low and high <= valid[1]:
        return None
    return (
        f"integers from {low} to {high} given, from {valid[0]} to {valid[1]} expected: the network "
        "reads a table at them"
    )


def unreadable(error: Exception) -> str:
    """Say why a text file cannot be read, in place of what Python says of it.

    Examples
    --------
    >>> unreadable(FileNotFoundError(2, "No such file or directory", "x.json"))
    'no such file or directory'
    >>> unreadable(UnicodeDecodeError("utf-8", b"PK", 0, 1, "invalid start byte"))
    'it is no text'
    """
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    said = str(getattr(error, "strerror", None) or error)
    return said[:1].lower() + said[1:]


def of_system(error: OSError) -> str:
    """Return what the operating system says, and of which file, in place of Python's text.

    Examples
    --------
    >>> of_system(OSError(28, "No space left on device", "x.json"))
    'x.json: no space left on device'
    """
    return f"{error.filename}: {unreadable(error)}" if error.filename else unreadable(error)


def misfit_of_type(found: str, expected: str) -> str:
    """Say that an array has another type than a network's input, and what to do."""
    scale = ", and scale pixels as in training" if (found, expected) == PIXELS else ""
    return f"{expected} expected; convert it with .astype{scale}"
