"""A cache on disk of the LLVM code of kernels: only the first run compiles them.

The folder is ``$RELAY_INT8_CACHE``, else ``relay-int8`` in ``$XDG_CACHE_HOME`` or ``~/.cache``;
with ``RELAY_INT8_CACHE=off`` there is none. An entry is a file, named by the sha256 of all that
its content depends on, which begins with the sha256 of the rest. Entries are written beside their
place and moved there, so that processes that share a folder see whole ones. A damaged one is
removed. The folder belongs to the user alone: who could write to it could run code.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from relay_int8.notices import notice

VARIABLE = "RELAY_INT8_CACHE"
SUFFIX = ".kernels"
MOST_BYTES = 500_000_000  # DenseNet-121 takes some 5 MB
QUICKLY = 1  # zlib's level: code shrinks to a tenth, in a hundredth of the time to compile it


@dataclass(frozen=True)
class CodeCache:
    """Texts by key in a folder; without one (None) nothing is kept.

    Parameters
    ----------
    folder
        Made when something is kept.
    most_bytes
        What the files may take; those that were read longest ago are removed.
    """

    folder: Path | None
    most_bytes: int = MOST_BYTES

    @classmethod
    def of_user(cls, environment: Mapping[str, str] = os.environ) -> CodeCache:
        """Return the cache that the environment names, or the default one.

        A user without a home directory has none.
        """
        named = environment.get(VARIABLE)
        if named is not None:
            return cls(None if named in ("", "off") else Path(named))
        caches = environment.get("XDG_CACHE_HOME")
        try:
            return cls((Path(caches) if caches else Path("~/.cache").expanduser()) / "relay-int8")
        except RuntimeError:  # no variable and no database says where the home is
            return cls(None)

    def find(self, key: str) -> str | None:
        """Return the text that was kept under ``key``, or None."""
        if self.folder is None:
            return None
        path = self.folder / f"{key}{SUFFIX}"
        try:
            if not _is_private(self.folder):
                return None
            content = path.read_bytes()
            with suppress(OSError):
                os.utime(path)  # it is the last to be removed
        except OSError:
            return None
        try:
            return _opened(content)
        except (ValueError, zlib.error):
            notice(f"{path}: damaged, and removed; its kernels are compiled again")
            with suppress(OSError):
                path.unlink()
            return None

    def keep(self, texts: Mapping[str, str]) -> None:
        """Keep texts by their keys, and remove what there is no room for."""
        if self.folder is None or not texts:
            return
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self.folder):
                return
            for key, text in texts.items():
                _write(self.folder / f"{key}{SUFFIX}", _sealed(text))
            self._trim()
        except OSError as error:
            notice(
                f"{self.folder}: compiled kernels cannot be kept there ({error.strerror}); name "
                f"another folder by {VARIABLE}, or switch it off with {VARIABLE}=off"
            )

    def _trim(self) -> None:
        """Remove the files that were read longest ago."""
        assert self.folder is not None
        files = []
        for entry in os.scandir(self.folder):
            with suppress(FileNotFoundError):  # another process removes too
                if entry.name.endswith(SUFFIX):
                    files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
        total_bytes = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total_bytes <= self.most_bytes:
                return
            Path(path).unlink(missing_ok=True)
            total_bytes -= size


def _is_private(folder: Path) -> bool:
    """Say whether nobody but the user can write to a folder; a notice says so where others can."""
    status = folder.stat()
    others = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid == os.getuid() and not others:
        return True
    notice(
        f"{folder}: other users can write to it, so that compiled kernels are not kept there; make "
        f"it yours alone (chmod 700), or name another folder by {VARIABLE}"
    )
    return False


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; after a power cut it may be damaged, which is noticed."""
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _sealed(text: str) -> bytes:
    """Return the content of a file: the hash, then the compressed text."""
    content = zlib.compress(text.encode(), QUICKLY)
    return hashlib.sha256(content).digest() + content


def _opened(content: bytes) -> str:
    """Return the text of a file; a ValueError or zlib.error says that it is damaged."""
    digest, rest = content[:32], content[32:]
    if hashlib.sha256(rest).digest() != digest:
        raise ValueError("the hash is not that of the content")
    return zlib.decompress(rest).decode()
