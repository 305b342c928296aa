"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


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
