"""One file that ships: a compiled library and the manifest that says what it is.

An artifact (``.ri8``) is a zip, stored without compression, of these members::

    manifest.json     what it takes and gives, what it was made from, by and for
    manifest.sha256   hash of manifest.json; the manifest holds the hashes of the others
    library.so        the compiled network; needs the TVM runtime, not the compiler
    weights.bin       large constants, for CPUs alone, at a multiple of 64 bytes of the file: they
                      are mapped from it, so that all processes that run it have them once

Every hash is checked before anything is loaded. They find damage and careless edits; they are no
signature: a library is machine code, so load artifacts only from those you trust.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.argument_types import checked
from relay_int8.errors import ArtifactError
from relay_int8.file_names import absent, instead_of_artifact
from relay_int8.files import write_atomic
from relay_int8.messages import unreadable
from relay_int8.runtime.aligned_zip import content_begin, zip_bytes
from relay_int8.runtime.manifest import FORMAT_VERSION, Manifest
from relay_int8.runtime.module import Module
from relay_int8.runtime.tvm_runtime import ALIGNMENT
from relay_int8.runtime.weights import arrays_in, map_bytes, pack
from relay_int8.version import __version__

Array = np.ndarray[Any, Any]
LIBRARY, WEIGHTS = "library.so", "weights.bin"
MANIFEST, MANIFEST_HASH = "manifest.json", "manifest.sha256"
_CHUNK_BYTES = 1 << 20  # for a GPU a library holds all weights: it never is in memory as a whole
# Everything zipfile raises for a file that is damaged rather than absent.
_DAMAGE = (
    AttributeError,
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


def save_artifact(
    path: Path | str, library: bytes, manifest: Manifest, weights: Sequence[Array] = ()
) -> Manifest:
    """Write ``library`` (a shared object) and ``manifest`` to ``path``; all of it or nothing.

    ``weights`` are what ``main`` of the library takes behind the network's inputs.

    Returns
    -------
    Manifest
        The one written: ``manifest`` with the hashes, and where each of the weights lies.

    Raises
    ------
    ArtifactError
        If the file cannot be written; what was at ``path`` before is still there.
    """
    path = Path(path)
    content, entries = pack(weights)
    manifest = dataclasses.replace(
        manifest,
        weights=entries,
        library_sha256=hashlib.sha256(library).hexdigest(),
        weights_sha256=hashlib.sha256(content).hexdigest() if entries else "",
    )
    text = manifest.to_json().encode()
    members = {
        MANIFEST: text,
        MANIFEST_HASH: hashlib.sha256(text).hexdigest().encode(),
        LIBRARY: library,
        **({WEIGHTS: content} if entries else {}),
    }
    try:
        write_atomic(path, zip_bytes(members, aligned=WEIGHTS))
    except OSError as error:
        lost = (
            f"there is no folder {path.parent}" if not path.parent.is_dir() else unreadable(error)
        )
        raise ArtifactError(f"{path}: cannot be written: {lost}") from error
    return manifest


@checked
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
    return extract(path, None)


@checked
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
    with extracted(path) as contents:
        return contents.module(threads=threads, gpu=gpu)


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What the artifact at ``path`` holds: the file of its library, its weights as mapped."""

    path: Path
    manifest: Manifest
    library: Path
    weights: tuple[Array, ...]

    def module(self, *, threads: int | None = None, gpu: int = 0) -> Module:
        """Return the network, ready to run; errors as those of :func:`load`."""
        return Module(
            path=self.path,
            manifest=self.manifest,
            library=self.library,
            weights=self.weights,
            threads=threads,
            gpu=gpu,
        )


@contextmanager
def extracted(path: Path | str) -> Iterator[Contents]:
    """Give what an artifact holds, hashes checked; the library's file goes with the context.

    Raises
    ------
    ArtifactError
        As :func:`extract` does.
    """
    # The directory is 0700: nobody can exchange the library between writing and loading it.
    folder = Path(tempfile.mkdtemp(prefix="relay-int8-"))
    library = folder / LIBRARY
    try:
        manifest, memory = _checked(Path(path), library)
        weights = arrays_in(memory, manifest.weights)
        yield Contents(path=Path(path), manifest=manifest, library=library, weights=weights)
    finally:
        # TemporaryDirectory would open the folder, which a process with too many open files cannot.
        library.unlink(missing_ok=True)
        folder.rmdir()


def extract(path: Path | str, library: Path | None, weights: Path | None = None) -> Manifest:
    """Return the manifest of an artifact and write its library to a file, hashes checked.

    Its weights are written too, if a file is named and it has any. What is written is what was
    hashed. If they misfit it is there all the same: do not use it.

    Raises
    ------
    ArtifactError
        If the artifact is absent, damaged, altered or of a newer format, or a file cannot be
        written.
    """
    manifest, memory = _checked(Path(path), library)
    if weights is not None and manifest.weights:
        with _written(weights) as write:
            for begin in range(0, len(memory), _CHUNK_BYTES):
                write(memory[begin : begin + _CHUNK_BYTES].tobytes())
    return manifest


def _checked(path: Path, library: Path | None) -> tuple[Manifest, Array]:
    """Return the manifest and the bytes of the weights, hashes checked; write the library."""
    if not path.is_file():
        raise ArtifactError(
            instead_of_artifact(path)
            or f"{path}: {absent(path)}; relay-int8 quantize writes artifacts (.ri8)"
        )
    try:
        # One open file: what is mapped is what was hashed, whatever happens to the path.
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            manifest = _read_manifest(path, archive)
            with archive.open(LIBRARY) as content:
                digest = _copy(content, library)
            _check_digest(path, LIBRARY, digest, manifest.library_sha256)
            memory = _mapped_weights(path, file, archive, manifest)
    except _DAMAGE as error:
        reason = error if zipfile.is_zipfile(path) else "no zip file"
        damage = f"damaged, or not an artifact of relay-int8 ({reason}); copy or build it again"
        raise ArtifactError(instead_of_artifact(path) or f"{path}: {damage}") from error
    return manifest, memory


def _mapped_weights(
    path: Path, file: IO[bytes], archive: zipfile.ZipFile, manifest: Manifest
) -> Array:
    """Return the bytes of the weights, mapped and their hash checked; none where there are none."""
    if not manifest.weights:
        return np.empty(0, np.uint8)
    member = archive.getinfo(WEIGHTS)
    begin = content_begin(file, member)
    if member.compress_type != zipfile.ZIP_STORED or begin % ALIGNMENT:
        raise ArtifactError(
            f"{path}: {WEIGHTS} is compressed, or not at a multiple of {ALIGNMENT} bytes, so that "
            "it cannot be mapped: the archive was packed anew; copy or build the artifact again"
        )
    try:
        memory = map_bytes(file, begin, member.file_size)
    except OSError as error:
        raise ArtifactError(
            f"{path}: cannot be mapped into memory ({error.strerror}); copy it to a file system "
            "that can, as of a local disk, or make room"
        ) from error
    _check_digest(path, WEIGHTS, hashlib.sha256(memory.data).hexdigest(), manifest.weights_sha256)
    return memory


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> Manifest:
    names = sorted(archive.namelist())
    if MANIFEST not in names or MANIFEST_HASH not in names:
        raise ArtifactError(
            instead_of_artifact(path)
            or f"{path}: not an artifact of relay-int8: a zip of {names[:5]}, without {MANIFEST}"
        )
    text = archive.read(MANIFEST)
    expected = archive.read(MANIFEST_HASH).decode("ascii")
    _check_digest(path, MANIFEST, hashlib.sha256(text).hexdigest(), expected)
    _check_version(path, finite_json.loads(text)["format_version"])
    return Manifest.from_json(text.decode())


def _copy(content: IO[bytes], file: Path | None) -> str:
    """Write ``content`` to a file, if one is named, and return its sha256."""
    sha = hashlib.sha256()
    with _written(file) as write:
        while chunk := content.read(_CHUNK_BYTES):
            sha.update(chunk)
            write(chunk)
    return sha.hexdigest()


@contextmanager
def _written(file: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Give a function that writes to ``file``, or nowhere; what fails is no damage of artifacts."""

    def _write(chunk: bytes) -> None:
        assert target is not None and file is not None
        rest = memoryview(chunk)
        try:
            while rest:  # a disk that is full takes a part without an error
                rest = rest[target.write(rest) :]
        except OSError as error:
            raise _unwritable(file, error) from error

    if file is None:
        yield len
        return
    try:
        target = file.open("wb", buffering=0)
    except OSError as error:
        raise _unwritable(file, error) from error
    with target:
        yield _write


def _unwritable(file: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        f"{file}: cannot be written there ({error.strerror}); make room, or name "
        "another temporary folder by TMPDIR"
    )


def _check_version(path: Path, version: object) -> None:
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path}: artifact format {version}; this relay-int8 ({__version__}) reads "
            f"format {FORMAT_VERSION}; install the relay-int8 that wrote it, or build it again"
        )


def _check_digest(path: Path, member: str, digest: str, expected: str) -> None:
    if digest != expected:
        raise ArtifactError(
            f"{path}: {member} was altered: its sha256 is {digest[:16]}..., not "
            f"{expected[:16]}...; copy or build the artifact again"
        )
