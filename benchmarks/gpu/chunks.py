"""Files that are alike, stored once: cut where their content says, kept by hash in packs.

A network's libraries for batch 1, 16 and 64 hold the same weights. Cut wherever a hash of the last
eight bytes ends in zeros, equal stretches give equal pieces, wherever they lie. Packs have a
limited size, so that they can travel one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

WINDOW = 8
ZEROS = 14  # bits: a piece has 16 KiB in the mean
LONGEST = 1 << 18
PACK_BYTES = 24 << 20
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class ChunkError(RuntimeError):
    """A file cannot be put together again; the message says what is missing or altered."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a file is put together: hashes of its pieces, and its own."""

    pieces: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Extent:
    """Where a piece lies."""

    pack: str
    start: int
    size: int


class Store:
    """Pieces in the packs of a folder; ``places`` says which lie where."""

    def __init__(self, folder: Path, places: dict[str, Extent] | None = None) -> None:
        self.folder = folder
        self.places = dict(places or {})

    def add(self, content: bytes, name: str) -> Recipe:
        """Keep a file in packs called ``name-0.pack`` and so on, and return how it is had back."""
        self.folder.mkdir(parents=True, exist_ok=True)
        pieces = []
        for piece in cut(content):
            key = hashlib.sha256(piece).hexdigest()
            if key not in self.places:
                self.places[key] = self._append(piece, name)
            pieces.append(key)
        return Recipe(pieces=tuple(pieces), sha256=hashlib.sha256(content).hexdigest())

    def get(self, recipe: Recipe) -> bytes:
        """Return the file.

        Raises
        ------
        ChunkError
            If a pack is missing or altered.
        """
        packs: dict[str, bytes] = {}
        parts = []
        for key in recipe.pieces:
            place = self.places[key]
            if place.pack not in packs:
                packs[place.pack] = self._pack(place.pack)
            parts.append(packs[place.pack][place.start : place.start + place.size])
        content = b"".join(parts)
        if hashlib.sha256(content).hexdigest() != recipe.sha256:
            used = ", ".join(sorted(packs))
            raise ChunkError(f"{self.folder}: {used} were altered; copy or build them again")
        return content

    def packs(self, recipes: Sequence[Recipe]) -> list[str]:
        """Return the names of the packs that files are made of."""
        return sorted({self.places[key].pack for recipe in recipes for key in recipe.pieces})

    def _pack(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise ChunkError(
                f"{self.folder / name} cannot be read: {error}; copy it too"
            ) from error

    def _append(self, piece: bytes, name: str) -> Extent:
        number = 0
        while (size := self._size(f"{name}-{number}.pack")) and size + len(piece) > PACK_BYTES:
            number += 1
        pack = f"{name}-{number}.pack"
        with (self.folder / pack).open("ab") as file:
            file.write(piece)
        return Extent(pack=pack, start=size, size=len(piece))

    def _size(self, pack: str) -> int:
        path = self.folder / pack
        return path.stat().st_size if path.exists() else 0


def cut(content: bytes) -> list[bytes]:
    """Return the pieces of ``content``, in order; none is longer than ``LONGEST``."""
    ends = [0, *_ends(content), len(content)]
    pieces = []
    for start, end in pairwise(ends):
        pieces += [content[i : min(i + LONGEST, end)] for i in range(start, end, LONGEST)]
    return pieces


def _ends(content: bytes) -> list[int]:
    """Return where pieces end: after eight bytes whose hash begins with ``ZEROS`` zero bits."""
    count = len(content) - WINDOW + 1
    if count < 1:
        return []
    data = np.frombuffer(content, np.uint8)
    window = np.zeros(count, np.uint64)
    for offset in range(WINDOW):
        window |= data[offset : offset + count].astype(np.uint64) << np.uint64(8 * offset)
    with np.errstate(over="ignore"):
        marks = (window * _FACTOR) >> np.uint64(64 - ZEROS) == 0
    marks &= window != 0  # stretches of zeros are cut by length
    return [int(place) + WINDOW for place in np.flatnonzero(marks)]
