"""Read a PyTorch .pt2 file, the zip archive that ``torch.export.save`` writes.

::

    NAME/models/MODEL.json                       the program: nodes, signature, shapes
    NAME/data/weights/MODEL_weights_config.json  name of a parameter -> file and layout
    NAME/data/weights/weight_7                   bytes of a storage
    NAME/data/constants/...                      the same of tensors that are no parameters

Nothing is unpickled and no expression of the file is evaluated; both are what ``torch.export.load``
would do. Entries are stored, not compressed, so that what is read has at most the file's size.
"""

from __future__ import annotations

import json
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.errors import FrontendError
from relay_int8.file_names import absent

Array = np.ndarray[Any, Any]

DAMAGES = (zipfile.BadZipFile, struct.error, EOFError, OSError, RuntimeError, ValueError)
"""What Python's zipfile raises at archives that are not whole."""
DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
}
"""Torch's number of an element type, as these files have it -> its name."""
COMPLEX = {10: "complex64", 11: "complex128"}
"""The same of complex numbers."""
STRIDED = 7  # torch's number of the layout of dense tensors
LARGEST_RANK = 16
OTHERS = (
    ("serialized_exported_program.json", "of PyTorch before 2.8: save it again with 2.9 or newer"),
    ("constants.pkl", "a TorchScript model: export it with torch.export.save"),
    ("data.pkl", "a checkpoint of weights alone: export the model with torch.export.save"),
)
"""End of an entry's name -> what archive it is the mark of."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A .pt2 file: the program as JSON, and every tensor that it names."""

    program: dict[str, Any]
    tensors: dict[str, Array]


def read_archive(path: Path) -> Archive:
    """Return what a .pt2 file holds.

    Raises
    ------
    FrontendError
        There is no such file, or it is no whole archive of one exported program.
    """
    if not path.is_file():
        raise FrontendError(f"{path}: {absent(path)}; expected a program of torch.export (.pt2)")
    try:
        with zipfile.ZipFile(path) as archive:
            return _Reader(archive, path.stat().st_size).archive()
    except FrontendError as err:
        raise FrontendError(f"{path}: {err}") from err
    except (*DAMAGES, RecursionError) as err:
        raise FrontendError(
            f"{path}: no whole program of torch.export ({err}); check the download, or save it "
            "again with torch.export.save"
        ) from err


class _Reader:
    """An open archive of ``size`` bytes."""

    def __init__(self, archive: zipfile.ZipFile, size: int) -> None:
        self._zip = archive
        self._size = size
        self._names = archive.namelist()

    def archive(self) -> Archive:
        """Return the program and its tensors; pickled ones are refused."""
        folder, model = self._model()
        tensors: dict[str, Array] = {}
        for kind in ("weights", "constants"):
            base = f"{folder}data/{kind}/"
            config = f"{base}{model}_{kind}_config.json"
            if f"{base}{model}.pt" in self._names:
                raise FrontendError(
                    f"its {kind} are a Python pickle, which can run any code and is not read: load "
                    "it with torch.export.load, save it again with PyTorch 2.9 or newer"
                )
            if config in self._names:
                entries = _object(self._json(config).get("config"), f"config of {config}")
                for name, entry in entries.items():
                    tensors[name] = self._tensor(base, name, _object(entry, name))
        return Archive(program=self._json(f"{folder}models/{model}.json"), tensors=tensors)

    def _model(self) -> tuple[str, str]:
        """Return the archive's folder, with a slash, and the name of its only program."""
        programs = [
            name for name in self._names if "models/" in name[-200:] and name.endswith(".json")
        ]
        if len(programs) == 1:
            folder, _, model = programs[0].rpartition("models/")
            return folder, model.removesuffix(".json")
        for ending, what in OTHERS:
            if any(name.endswith(ending) for name in self._names):
                raise FrontendError(f"expected a program of torch.export, found {what}")
        raise FrontendError(
            f"{len(programs)} programs in the archive, expected one: write it with "
            "torch.export.save"
        )

    def _bytes(self, name: str) -> bytes:
        try:
            info = self._zip.getinfo(name)
        except KeyError as err:
            raise ValueError(f"entry {name} is missing") from err
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"entry {name} is compressed; torch stores entries as they are")
        if info.file_size > self._size:
            raise ValueError(f"entry {name} claims {info.file_size} bytes of {self._size}")
        return self._zip.read(info)

    def _json(self, name: str) -> dict[str, Any]:
        return _object(json.loads(self._bytes(name)), name)

    def _tensor(self, base: str, name: str, entry: dict[str, Any]) -> Array:
        if entry.get("use_pickle"):
            raise FrontendError(
                f"tensor {name} is a Python pickle, which can run any code and is not read: move "
                "the model to the CPU, with dense weights, and export it again"
            )
        meta = _object(entry.get("tensor_meta"), f"tensor_meta of {name}")
        kind = meta.get("dtype")
        if type(kind) is not int or kind not in DTYPES | COMPLEX or meta.get("layout") != STRIDED:
            raise FrontendError(
                f"tensor {name} has element type {str(kind)[:80]} and layout "
                f"{meta.get('layout')}, by torch's numbers; dense tensors of "
                f"{', '.join(DTYPES.values())} are read"
            )
        file = entry.get("path_name")
        if not isinstance(file, str):
            raise ValueError(f"tensor {name} has no path_name")
        return _strided(name, self._bytes(base + file), meta)


def _strided(name: str, data: bytes, meta: dict[str, Any]) -> Array:
    """Return the elements of a storage that a tensor consists of, in order; copies them."""
    sizes, strides = (_numbers(meta.get(key), f"{key} of {name}") for key in ("sizes", "strides"))
    (offset,) = _numbers([meta.get("storage_offset")], f"storage_offset of {name}")
    if len(sizes) != len(strides) or len(sizes) > LARGEST_RANK:
        raise ValueError(f"tensor {name} has sizes {sizes} and strides {strides}")
    kind = (DTYPES | COMPLEX)[meta["dtype"]]
    base = np.dtype({"bfloat16": "<u2", "bool": "u1"}.get(kind, kind)).newbyteorder("<")
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    count = len(data) // base.itemsize
    if 0 in sizes:
        return np.zeros(sizes, "float32" if kind == "bfloat16" else kind)
    if last >= count or int(np.prod(sizes, dtype=object)) > count:
        raise ValueError(f"tensor {name} {sizes} does not fit the {len(data)} bytes of its storage")
    steps = [stride * base.itemsize for stride in strides]
    array: Array = np.ndarray(sizes, base, data, offset * base.itemsize, steps)
    if kind == "bfloat16":
        return (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array != 0 if kind == "bool" else array).reshape(sizes)


def _object(entry: Any, what: str) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise ValueError(f"{what} is no object")
    return entry


def _numbers(entries: Any, what: str) -> list[int]:
    """Return sizes, each written as ``{"as_int": 3}``."""
    values = [
        entry.get("as_int") if isinstance(entry, dict) else None
        for entry in (entries if isinstance(entries, list) else [None])
    ]
    numbers = [value for value in values if type(value) is int and 0 <= value < 2**62]
    if len(numbers) != len(values):
        raise ValueError(f"{what} is {str(entries)[:80]}")
    return numbers
