"""Scores that have been measured, in a file that is complete after every one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.accuracy.trained_network import Score
from relay_int8.files import write_atomic


class ScoresFile:
    """Scores by network, scored split and row of the table.

    Parameters
    ----------
    path
        A JSON file, read where there is one; None: nothing outlives the process.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._scores: dict[str, Score] = self._read()

    def find(self, network: str, scored: str, row: str) -> Score | None:
        """Return the score, None where it has not been measured."""
        return self._scores.get(_key(network, scored, row))

    def keep(self, network: str, scored: str, row: str, score: Score) -> None:
        """Add a score, in the file beside what others have written there since."""
        self._scores |= self._read() | {_key(network, scored, row): score}
        if self._path is not None:
            fields = {key: asdict(self._scores[key]) for key in sorted(self._scores)}
            write_atomic(self._path, f"{json.dumps(fields, indent=1)}\n".encode())

    def _read(self) -> dict[str, Score]:
        if self._path is None or not self._path.exists():
            return {}
        found = json.loads(self._path.read_text(encoding="utf-8"))
        return {key: Score(**fields) for key, fields in found.items()}


def _key(network: str, scored: str, row: str) -> str:
    return f"{network}, {scored}, {row}"
