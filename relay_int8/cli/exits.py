"""Exit codes, and errors as messages rather than tracebacks."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from relay_int8.cli.exit_codes import FAILED, UNMET
from relay_int8.cli.option_names import with_options
from relay_int8.errors import AccuracyError, CoverageError, Int8Error
from relay_int8.messages import of_system
from relay_int8.notices import printed_notices

LOST_FOLDER = "the current folder is there no more; change to another one"
NO_MEMORY = (
    "there is no memory left; end other programs, give fewer or smaller images, or take a smaller "
    "--batch"
)


class ErrorGroup(TyperGroup):
    """Commands whose errors, and the system's, end the program with a message and an exit code.

    3 where the user demanded more int8 layers or accuracy than there can be, 1 for any other.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command that ``ctx`` holds."""
        try:
            with _interruptions() as noted, printed_notices(with_options):
                return super().invoke(ctx)
        except (BrokenPipeError, typer.Exit):
            raise  # the reader of a pipe has gone: nobody is left to tell
        except Exception as error:
            if noted:  # Ctrl-C in a pass, or in an import: TVM and others make another error of it
                raise KeyboardInterrupt from error
            if isinstance(error, MemoryError):
                typer.echo(f"error: {NO_MEMORY}", err=True)
                raise typer.Exit(FAILED) from error
            if not isinstance(error, Int8Error | OSError):  # OSError: a full disk, a lost file
                raise
            is_lost = isinstance(error, FileNotFoundError) and error.filename is None
            said = of_system(error) if isinstance(error, OSError) else str(error)
            message = LOST_FOLDER if is_lost else with_options(said)
            typer.echo(f"error: {message}", err=True)
            code = UNMET if isinstance(error, CoverageError | AccuracyError) else FAILED
            raise typer.Exit(code) from error


@contextmanager
def telling_what_is_written(*paths: Path | None, partial: Path | None = None) -> Iterator[None]:
    """Say, where Ctrl-C stops the run, which of the files that it writes are there already.

    ``partial`` is what --resume goes on with: a file, or a folder with files of other runs too.
    """
    written = [path for path in paths if path is not None]
    kept = [] if partial is None else [partial]
    before = {path: _stamp(path) for path in (*written, *kept)}
    try:
        yield
    except KeyboardInterrupt:
        names, resumable = (
            ", ".join(str(path) for path in some if _stamp(path) != before[path])
            for some in (written, kept)
        )
        said = f"; --resume goes on with {resumable}" if resumable else ""
        typer.echo(f"stopped; written: {names or 'nothing'}{said}", err=True)
        raise


def _stamp(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return what tells a file, or those in a folder, from what was there before."""
    stamps = []
    for file in (path, *path.rglob("*")):
        try:
            status = file.stat()
        except OSError:  # it is not there, or not any more
            continue
        stamps.append((str(file), status.st_ino, status.st_mtime_ns))
    return tuple(sorted(stamps))


@contextmanager
def _interruptions() -> Iterator[list[int]]:
    """Give a list of the Ctrl-C that come; they interrupt as ever."""
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield noted
        return

    def _note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, _note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def unmet(demand: str) -> NoReturn:
    """End the program because what the user demanded is not reached."""
    typer.echo(f"not reached: {demand}", err=True)
    raise typer.Exit(UNMET)
