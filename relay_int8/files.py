"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from relay_int8.errors import ConfigError


def require_folders(*files: str | Path | None) -> None:
    """Refuse to begin what could not be written in the end.

    Raises
    ------
    ConfigError
        A file's folder does not exist.
    """
    for file in files:
        if file is not None and not Path(file).parent.is_dir():
            raise ConfigError(
                f"{file}: there is no folder {Path(file).parent} to write it to; make it first"
            )


def write_atomic(path: Path, content: bytes) -> None:
    """Write ``content`` beside ``path``, flush it to disk, then move it to ``path``.

    Whoever reads ``path``, even after a power cut, finds the old content or the new one.

    Raises
    ------
    OSError
        As ``open`` does; nothing is left behind and what was at ``path`` is still there.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
