"""JSON of numbers that may be infinite, which JSON itself lacks: they are written as "inf"."""

from __future__ import annotations

import json
from typing import Any


def dumps(value: Any) -> str:
    """Return readable JSON; read infinite numbers back with ``float``."""
    return json.dumps(_named(value), indent=1, allow_nan=False) + "\n"


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    return str(value) if value in (float("inf"), float("-inf")) else value
