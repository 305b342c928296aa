"""JSON of numbers that may be infinite, which JSON itself lacks: they are written as "inf".

Files of users are read with :func:`loads`, so that whatever is in them ends in a ``ValueError``.
"""

from __future__ import annotations

import json
from typing import Any

MISREAD = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What reading the fields of a document raises that is JSON, and not what was expected."""

MOST_DIGITS = 300  # of an integer; one of 309 may be no float any more


def dumps(value: Any) -> str:
    """Return readable JSON; read infinite numbers back with ``float``."""
    return json.dumps(_named(value), indent=1, allow_nan=False) + "\n"


def loads(text: str | bytes) -> Any:
    r"""Return what JSON says.

    Raises
    ------
    ValueError
        It is no JSON, is nested deeper than Python can follow, has a name for the second time, an
        integer that is no float, or a text that cannot be written (half of a character, as
        ``"\ud800"``).
    """
    try:
        value = json.loads(text, parse_int=_integer, object_pairs_hook=_object)
        escape = "\\ud" if isinstance(text, str) else b"\\ud"
        if escape in text.lower():  # type: ignore[operator]
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"not JSON from {where} on") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is no text") from error
    return value


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits found")
    return int(digits)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(n for n in names if names.count(n) > 1)!r} for the second time")
    return values


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    return str(value) if value in (float("inf"), float("-inf")) else value
