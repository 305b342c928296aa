"""The command line: ``relay-int8 COMMAND``. Commands parse, say what they resolved, call once."""

from __future__ import annotations

import sys
from typing import Any

INTERRUPTED = 130  # exit code that shells give for a program that Ctrl-C ended


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly from its first import on."""
    try:
        from relay_int8.cli.commands import app

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def __getattr__(name: str) -> Any:
    """Import the commands when they are first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relay_int8.cli.commands import app

    return app
