"""Notices: warnings that something was decided for the user, who may want it otherwise.

They are warnings of Python, so that a program can silence them or make errors of them; the command
line prints each as a line on standard error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PACKAGE = __name__.partition(".")[0] + "."


class Notice(UserWarning):
    """What was decided, and how to decide otherwise."""


def notice(text: str) -> None:
    """Tell the user ``text``, with the line that called this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, Notice, stacklevel=level)


@contextmanager
def printed_notices(wording: Callable[[str], str] = str) -> Iterator[None]:
    """Print notices as lines on standard error, each once; other warnings are left as they are.

    ``wording`` gives a notice's text as it is to be printed.
    """
    told: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        others = warnings.showwarning

        def _show(
            message: Warning | str, category: type[Warning], *where: Any, **more: Any
        ) -> None:
            if not issubclass(category, Notice):
                others(message, category, *where, **more)
            elif str(message) not in told:
                told.add(str(message))
                print(f"note: {wording(str(message))}", file=sys.stderr, flush=True)

        warnings.showwarning = _show
        yield
