"""The command line: ``relay-int8 COMMAND``. Commands parse, say what they resolved, call once."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from relay_int8.cli.exit_codes import FAILED, INTERRUPTED
from relay_int8.cli.without_torch import import_tvm_without_torch

GARBAGE = 100_000  # objects more than were freed, after which cycles among them are looked for

import_tvm_without_torch()  # here: what a command spawns imports this module and skips main


def main() -> None:
    """Run the command line; Ctrl-C ends it quietly from its first import on."""
    _prepare_streams()
    _collect_rarely()
    code = _run()
    try:
        sys.stdout.flush()
    except OSError as error:
        # Python would try once more as it ends, and say so in words of its own.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not code:  # else the command has said it
            code = FAILED if isinstance(error, BrokenPipeError) else _said(error)
    sys.exit(code)


def _run() -> str | int | None:
    """Return the exit code, or the message of an error that no command has said."""
    try:
        from relay_int8.cli.commands import app

        app()
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:  # a help page that cannot be written
        return _said(error)
    return None


def _said(error: OSError) -> str:
    from relay_int8.messages import of_system

    return f"error: standard output: {of_system(error)}"


def _collect_rarely() -> None:
    """Have Python look for garbage less often, and not at the end: TVM makes a million objects.

    With Python's own threshold, an import of TVM and the end of the process take 0.7 s more.
    """
    gc.set_threshold(GARBAGE)
    atexit.register(gc.freeze)


def _prepare_streams() -> None:
    """Print names that a stream's encoding lacks with escapes; all nowhere if it is closed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # as ">&-" leaves it
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def __getattr__(name: str) -> Any:
    """Import the commands when they are first asked for."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from relay_int8.cli.commands import app

    return app
