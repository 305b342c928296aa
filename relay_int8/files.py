"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from relay_int8.errors import ConfigError


def require_outputs(*files: str | Path | None, read: Iterable[str | Path | None] = ()) -> None:
    """Refuse to begin what could not be written in the end, or would destroy what it is made from.

    Parameters
    ----------
    files
        What will be written; None where nothing is.
    read
        What it is made from.

    Raises
    ------
    ConfigError
        A file's folder does not exist or cannot be written to, it is a folder itself, it is one of
        those that are read, or two of them are one.
    """
    # Before Python 3.13, Path.resolve raises a RuntimeError at links that lead to each other.
    sources = {os.path.realpath(file) for file in read if file is not None}
    written: set[str] = set()
    for file in files:
        if file is None:
            continue
        folder = Path(os.path.realpath(file) if Path(file).is_symlink() else file).parent
        if not folder.is_dir():
            raise ConfigError(f"{file}: there is no folder {folder} to write it to; make it first")
        if Path(file).is_dir():
            raise ConfigError(f"{file}: it is a folder; name a file to write")
        path = os.path.realpath(file)
        if path in sources:
            raise ConfigError(f"{file}: it would be read and written over; write to another file")
        if path in written:
            raise ConfigError(f"{file}: two results would be written to it; give each its own file")
        written.add(path)
        _probe(Path(file))


def require_folder(folder: str | Path) -> None:
    """Refuse to begin where the files in ``folder`` could not be written; it may not exist yet.

    Raises
    ------
    ConfigError
        It is a file, or it cannot be made or written to.
    """
    path = Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        where = "" if there == path else f" at {there}"
        raise ConfigError(f"{folder}: a file found{where}, a folder expected; name another")
    _probe(there / path.name)


def require_space(folder: str | Path, wanted_bytes: int) -> None:
    """Refuse to begin where ``folder`` has no room for ``wanted_bytes``.

    Raises
    ------
    ConfigError
        If it has not.
    """
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes:
        raise ConfigError(
            f"{folder}: {free / 1e6:.0f} MB are free, some {wanted_bytes / 1e6:.0f} MB are needed "
            "for this model; make room, or name another folder (TMPDIR, if it is the temporary one)"
        )


def _probe(file: Path) -> None:
    """Refuse a folder that cannot be written to: read-only, full, of another user."""
    try:
        with tempfile.TemporaryFile(dir=file.parent, prefix=f".{file.name}.") as probe:
            probe.write(b"\0")
            probe.flush()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written ({error.strerror}); name another") from error


def write_atomic(path: Path, content: bytes | memoryview) -> None:
    """Write ``content`` beside ``path``, flush it to disk, then move it to ``path``.

    Whoever reads ``path``, even after a power cut, finds the old content or the new one. A link
    stays one: what it leads to is exchanged. Pipes and devices are written to as they are.

    Raises
    ------
    OSError
        As ``open`` does, with the name of ``path``; nothing is left behind and what was there is
        still there.
    """
    try:
        if path.exists() and not path.is_file():  # to move a file to /dev/null would end that
            path.write_bytes(content)
        else:
            _exchange(Path(os.path.realpath(path)), content)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _exchange(path: Path, content: bytes | memoryview) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
