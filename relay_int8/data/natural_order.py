"""Paths in the order in which people count: 2.jpg before 10.jpg."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

Key = tuple[tuple[tuple[str | int, ...], ...], str]


def naturally_sorted(paths: Iterable[PurePath]) -> list[PurePath]:
    """Return paths by their parts, numbers in names by value, 01 before 1.

    Examples
    --------
    >>> [path.name for path in naturally_sorted(map(PurePath, ["10.jpg", "2.jpg", "1.jpg"]))]
    ['1.jpg', '2.jpg', '10.jpg']
    """
    return sorted(paths, key=_key)


def _key(path: PurePath) -> Key:
    parts = tuple(
        # Text and numbers take turns, text first: the same place always has the same type.
        tuple(int(piece) if index % 2 else piece for index, piece in enumerate(pieces))
        for pieces in (re.split(r"([0-9]+)", part) for part in path.parts)
    )
    return parts, path.as_posix()
