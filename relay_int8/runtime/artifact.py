"""One file that ships: a compiled library and the manifest that says what it is.

An artifact (``.ri8``) is a zip, stored without compression, of exactly three members::

    library.so        the compiled network; needs the TVM runtime, not the compiler
    manifest.json     what it takes and gives, what it was made from, by and for
    manifest.sha256   hash of manifest.json; the manifest holds the hash of library.so

Every hash is checked before anything is loaded. They find damage and careless edits; they are no
signature: a library is machine code, so load artifacts only from those you trust.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from relay_int8.errors import ArtifactError
from relay_int8.files import write_atomic
from relay_int8.runtime.manifest import FORMAT_VERSION, Manifest
from relay_int8.runtime.module import Module
from relay_int8.version import __version__

LIBRARY, MANIFEST, MANIFEST_HASH = "library.so", "manifest.json", "manifest.sha256"
# Everything zipfile raises for a file that is damaged rather than absent.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    KeyError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def save_artifact(path: Path | str, library: bytes, manifest: Manifest) -> Manifest:
    """Write ``library`` (a shared object) and ``manifest`` to ``path``; all of it or nothing.

    Returns
    -------
    Manifest
        The one written: ``manifest`` with the library's hash.

    Raises
    ------
    ArtifactError
        If the file cannot be written; what was at ``path`` before is still there.
    """
    path = Path(path)
    manifest = dataclasses.replace(manifest, library_sha256=hashlib.sha256(library).hexdigest())
    text = manifest.to_json().encode()
    members = {
        MANIFEST: text,
        MANIFEST_HASH: hashlib.sha256(text).hexdigest().encode(),
        LIBRARY: library,
    }
    try:
        write_atomic(path, _zip(members))
    except OSError as error:
        raise ArtifactError(f"{path}: cannot be written: {error}") from error
    return manifest


def read_manifest(path: Path | str) -> Manifest:
    """Return the manifest of an artifact, hashes checked, nothing loaded.

    Raises
    ------
    ArtifactError
        If the file is absent, damaged, altered or of a newer format.

    Examples
    --------
    >>> manifest = relay_int8.read_manifest("digits.ri8")
    >>> manifest.inputs[0].name, manifest.inputs[0].shape
    ('image', (1, 1, 8, 8))
    """
    return read_artifact(path)[0]


def load(path: Path | str, *, threads: int | None = None, gpu: int = 0) -> Module:
    """Return the network in an artifact, ready to run on this computer.

    Imports no compiler: loading takes a tenth of a second.

    Parameters
    ----------
    path
        File that :func:`save_artifact` wrote.
    threads
        Threads of the runtime's pool, which all modules share; None leaves it as it is
        (``TVM_NUM_THREADS``, or one for every second hardware thread).
    gpu
        For an artifact that is built for GPUs: the number of the one it runs on.

    Raises
    ------
    ArtifactError
        If the file is absent, damaged, altered, of a newer format, made with another TVM, for
        another computer or another GPU than there is.
    ConfigError
        If the runtime's pool exists already and is smaller than ``threads``.

    Examples
    --------
    >>> network = relay_int8.load("digits.ri8")
    >>> network.run({"image": images.test[:1]})["logits"].shape
    (1, 10)
    """
    manifest, code = read_artifact(path)
    return Module(path=Path(path), manifest=manifest, library=code, threads=threads, gpu=gpu)


def read_artifact(path: Path | str) -> tuple[Manifest, bytes]:
    """Return manifest and library of an artifact, hashes checked, nothing loaded.

    Raises
    ------
    ArtifactError
        If the file is absent, damaged, altered or of a newer format.
    """
    path = Path(path)
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file; relay-int8 quantize writes artifacts (.ri8)")
    try:
        members = _members(path)
        _check_hash(path, MANIFEST, members[MANIFEST], members[MANIFEST_HASH].decode("ascii"))
        _check_version(path, json.loads(members[MANIFEST])["format_version"])
        manifest = Manifest.from_json(members[MANIFEST].decode())
        _check_hash(path, LIBRARY, members[LIBRARY], manifest.library_sha256)
    except _DAMAGE as error:
        raise ArtifactError(
            f"{path}: damaged, or not an artifact of relay-int8 ({error}); copy or build it again"
        ) from error
    return manifest, members[LIBRARY]


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        names = sorted(archive.namelist())
        if MANIFEST not in names or MANIFEST_HASH not in names:
            raise ArtifactError(
                f"{path}: not an artifact of relay-int8: a zip of {names[:5]}, without {MANIFEST}"
            )
        return {name: archive.read(name) for name in (LIBRARY, MANIFEST, MANIFEST_HASH)}


def _check_version(path: Path, version: object) -> None:
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: artifact format {version}; this relay-int8 ({__version__}) reads "
            f"format {FORMAT_VERSION}; install the relay-int8 that wrote it, or build it again"
        )


def _check_hash(path: Path, member: str, content: bytes, expected: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise ArtifactError(
            f"{path}: {member} was altered: its sha256 is {digest[:16]}..., not "
            f"{expected[:16]}...; copy or build the artifact again"
        )


def _zip(members: Mapping[str, bytes]) -> bytes:
    """Return a stored zip; equal members give equal bytes (every date is the same)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()
