"""What ``--build`` writes and ``--run`` reads: networks for a device, and what they must compute.

    bundle.json       everything below by name, with hashes
    packs/*.pack      the artifacts (.ri8), in pieces: see benchmarks.gpu.chunks
    references/*.npz  logits of the images, by the same network on the computer that built it
    peaks.fatbin      kernels that measure the device
    runtime/          TVM's runtime for a computer without TVM; put on PYTHONPATH

An artifact is put together to the byte, and its own hashes are checked again when it is loaded.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.gpu.chunks import Extent, Recipe, Store
from benchmarks.gpu.device import Kind

FORMAT = 1
INDEX, PACKS, REFERENCES, PEAKS, RUNTIME = (
    "bundle.json",
    "packs",
    "references",
    "peaks.fatbin",
    "runtime",
)


class BundleError(RuntimeError):
    """A folder is no build, or not of this version; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of a network, in the order of execution.

    Parameters
    ----------
    tensor, function, title
        What it computes, by the name of its tensor, of its code, and in words.
    key, version
        Of the tuning task, empty where it has none.
    unit
        Which peak it is measured by: "dp4a", "mma", or "" for others.
    macs
        Products inside the image, of the whole batch.
    moved_bytes
        Every argument read once, y written once.
    tuned
        Whether a tuning record chose its schedule.
    expected
        sha256 of its integers for the first image in logical layout, by the NumPy oracle; empty
        where that was not computed.
    shape, layout
        Of y: logical shape, and the name of its layout.
    """

    tensor: str
    function: str
    title: str
    key: str = ""
    version: str = ""
    unit: str = ""
    macs: int = 0
    moved_bytes: int = 0
    tuned: bool = False
    expected: str = ""
    shape: tuple[int, ...] = ()
    layout: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One network for one batch; ``recipes`` are "graph", with a CUDA graph in it, and "calls"."""

    network: str
    image_size: int
    batch: int
    macs: int
    target: Mapping[str, Any]
    digest: str
    kernels: tuple[Kernel, ...]
    recipes: Mapping[str, Recipe]

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.network}-{self.image_size}-b{self.batch}"


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A folder that was built for devices of one kind."""

    folder: Path
    kind: Kind
    facts: Mapping[str, str]
    entries: tuple[Entry, ...] = ()
    places: Mapping[str, Extent] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def store(self) -> Store:
        """Where the artifacts' pieces lie."""
        return Store(self.folder / PACKS, dict(self.places))

    def save(self) -> None:
        """Write the index."""
        fields = dataclasses.asdict(self)
        fields.pop("folder")
        (self.folder / INDEX).write_text(json.dumps(fields, indent=1) + "\n")

    def reference(self, entry: Entry) -> np.ndarray:
        """Return the logits that the network must give."""
        with np.load(reference_file(self.folder, entry.network, entry.image_size)) as arrays:
            logits: np.ndarray = arrays["logits"][: entry.batch]
        return logits

    def artifact(self, entry: Entry, form: str, folder: Path) -> Path:
        """Return the artifact of a form as a file in ``folder``."""
        path = folder / f"{entry.name}-{form}.ri8"
        if not path.exists():
            path.write_bytes(self.store.get(entry.recipes[form]))
        return path


def reference_file(folder: Path, network: str, image_size: int) -> Path:
    """Return where the logits of a network lie."""
    return folder / REFERENCES / f"{network}-{image_size}.npz"


def open_bundle(folder: Path) -> Bundle:
    """Return what was built into ``folder``.

    Raises
    ------
    BundleError
        If nothing was, or by another version.
    """
    path = folder / INDEX
    try:
        fields = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BundleError(f"{path} cannot be read: {error}; make it with --build") from error
    if fields.get("format") != FORMAT:
        raise BundleError(f"{path} has format {fields.get('format')}, not {FORMAT}; build it again")
    entries = tuple(
        Entry(
            **entry
            | {
                "kernels": tuple(
                    Kernel(**kernel | {"shape": tuple(kernel["shape"])})
                    for kernel in entry["kernels"]
                ),
                "recipes": {
                    form: Recipe(pieces=tuple(recipe["pieces"]), sha256=recipe["sha256"])
                    for form, recipe in entry["recipes"].items()
                },
            }
        )
        for entry in fields.pop("entries")
    )
    places = {key: Extent(**place) for key, place in fields.pop("places").items()}
    return Bundle(folder=folder, entries=entries, places=places, **fields)


def digest(values: np.ndarray) -> str:
    """Return the sha256 of integers, whatever type and layout they had."""
    return hashlib.sha256(np.ascontiguousarray(values, np.int32).tobytes()).hexdigest()
