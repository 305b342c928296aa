"""Reasons why a rewrite did not apply where it nearly fitted, collected for reports."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Declined:
    """The result of a rewrite that knows the operator, but not this use of it: the reason.

    Attributes
    ----------
    reason
        A short sentence with the name of the culprit.
    name
        The tensor that was kept as it is; who collects it fills that in.
    """

    reason: str
    name: str = ""


_collected: ContextVar[list[Declined] | None] = ContextVar("collected", default=None)


@contextmanager
def collecting_declined() -> Iterator[list[Declined]]:
    """Yield a list that gets what the rewrites inside of the context decline, each once."""
    collected: list[Declined] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)


def note_declined(name: str, declined: Declined) -> None:
    """Add to the collected refusals that the tensor called ``name`` was kept, and why."""
    logger.debug("%s is kept: %s", name, declined.reason)
    named, collected = replace(declined, name=name), _collected.get()
    if collected is not None and named not in collected:
        collected.append(named)
