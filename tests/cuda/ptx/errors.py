"""What the interpreter says of a kernel that does what no kernel may do on a GPU."""

from __future__ import annotations

import numpy as np


class PtxError(AssertionError):
    """A kernel, one of its instructions, and the thread that may not execute it so."""


class UnknownPtxError(PtxError):
    """PTX that the interpreter has no meaning for."""


class Fault(Exception):
    """What some lanes may not do, the first of them ``lane``; a PtxError where the text is known."""

    def __init__(self, lane: int, reason: str) -> None:
        super().__init__(reason)
        self.lane, self.reason = lane, reason


def refuse(wrong: np.ndarray, lanes: np.ndarray, reason: str) -> None:
    """Raise the fault of the first lane that is ``wrong``; both have a row for each lane."""
    if wrong.any():
        row = int(np.argmax(wrong.reshape(len(lanes), -1).any(axis=1)))
        raise Fault(int(lanes[row]), reason)
