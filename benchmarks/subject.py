"""What is measured: a network of the zoo, what calibrates it, and what it is run on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from benchmarks import zoo
from relay_int8.errors import ConfigError

INPUT = "input"  # of networks of one image
BATCH = "N"  # the open extent of the model file
CALIBRATION_SEED, INPUT_SEED = 1, 2
SPARED = 4  # a fourth of the tokens at most is padding
Inputs = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One network at one image size.

    Parameters
    ----------
    network
        A key of ``benchmarks.zoo.NETWORKS`` or ``TRANSFORMERS``.
    image_size
        Height and width of the input, or the number of tokens.
    calibration_images
        How many images each system calibrates with; all get the same.
    depth
        "cut" for tests.
    """

    network: str
    image_size: int
    calibration_images: int = 8
    depth: zoo.Depth = "full"

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.network}-{self.image_size}-c{self.calibration_images}"

    @property
    def open(self) -> bool:
        """Whether one file of the network is for all batches."""
        return self.network in zoo.NETWORKS

    @property
    def required(self) -> Literal["products"] | bool:
        """What must be in integers here: every layer of convolutional networks, or all products."""
        return self.open or "products"

    def calibration(self, batch: int = 1) -> list[Inputs]:
        """Return the calibration inputs: each of batch 1, or of the only one the file is for."""
        rng, specs = np.random.default_rng(CALIBRATION_SEED), self._specs()
        extent = 1 if self.open else batch
        return [_drawn(rng, specs, extent) for _ in range(-(-self.calibration_images // extent))]

    def inputs(self, batch: int) -> Inputs:
        """Return what is run; none of it calibrates."""
        return _drawn(np.random.default_rng(INPUT_SEED), self._specs(), batch)

    def model(self, batch: int | str = BATCH) -> onnx.ModelProto:
        """Return the float32 network, its batch open unless given."""
        return zoo.build(self.network, image_size=self.image_size, batch=batch, depth=self.depth)

    def _specs(self) -> list[zoo.Input]:
        return zoo.inputs(self.network, image_size=self.image_size, depth=self.depth)


@dataclass(frozen=True, kw_only=True)
class FileSubject(Subject):
    """A network of batch 1 from a file, with the inputs that lie beside it.

    Parameters
    ----------
    file
        ONNX; ``NAME.calib.npz`` and ``NAME.test.npz`` hold inputs along the first axis of arrays.
    """

    file: Path

    @property
    def name(self) -> str:
        """A name for files."""
        return f"{self.network}-{sha256(self.file.read_bytes()).hexdigest()[:8]}"

    @property
    def open(self) -> bool:
        """Never: shapes are those of the inputs."""
        return False

    @property
    def required(self) -> Literal["products"] | bool:
        """Nothing: what is left in float is part of the comparison."""
        return False

    def calibration(self, batch: int = 1) -> list[Inputs]:
        """Return the inputs that calibrate."""
        return self._read("calib")

    def inputs(self, batch: int) -> Inputs:
        """Return the first of the other inputs."""
        return self._read("test")[0]

    def scored(self) -> list[Inputs]:
        """Return the inputs that do not calibrate."""
        return self._read("test")

    def model(self, batch: int | str = BATCH) -> onnx.ModelProto:
        """Return the file's network."""
        return onnx.load(self.file)

    def _read(self, kind: str) -> list[Inputs]:
        file = self.file.with_suffix(f".{kind}.npz")
        if not file.exists():
            raise ConfigError(
                f"{self.file}: expected its inputs in {file.name}, found no such file"
            )
        with np.load(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
        graph = onnx.load(self.file, load_external_data=False).graph
        names = [value.name for value in graph.input]
        if set(names) != set(arrays):
            raise ConfigError(
                f"{file}: holds {', '.join(arrays)}; the model reads {', '.join(names)}"
            )
        count = min(len(arrays[name]) for name in names)
        return [{name: arrays[name][i : i + 1] for name in names} for i in range(count)]


def files(folder: Path) -> list[FileSubject]:
    """Return the networks of a folder, by their names.

    Raises
    ------
    ConfigError
        There are none.
    """
    models = sorted(folder.glob("*.onnx"))
    if not models:
        raise ConfigError(
            f"{folder}: found no NAME.onnx; write some with benchmarks.accuracy.torch_random"
        )
    return [FileSubject(network=model.stem, image_size=0, file=model) for model in models]


def subject(network: str, image_size: int | None, calibration_images: int) -> Subject:
    """Return a network at ``image_size``, or at the size it was published with."""
    size = zoo.default_size(network) if image_size is None else image_size
    return Subject(network=network, image_size=size, calibration_images=calibration_images)


def _drawn(rng: np.random.Generator, specs: Sequence[zoo.Input], batch: int) -> Inputs:
    return {spec.name: _values(rng, spec, batch) for spec in specs}


def _values(rng: np.random.Generator, spec: zoo.Input, batch: int) -> np.ndarray:
    """Return images as float32, indices that exist, or a mask of ones with zeros behind them."""
    if spec.kind == "image":
        return _images(rng, batch, spec.shape[-1])
    if spec.kind == "indices":
        return rng.integers(0, spec.count, (batch, *spec.shape))
    (tokens,) = spec.shape
    lengths = rng.integers(tokens - tokens // SPARED, tokens + 1, (batch, 1))
    return (np.arange(tokens) < lengths).astype(np.int64)


def _images(rng: np.random.Generator, count: int, size: int) -> np.ndarray:
    """Return pictures of mean square near 1 that are smooth, as photographs are, plus noise."""
    coarse = rng.standard_normal((count, 3, 8, 8), "float32")
    rows = np.arange(size) * 8 // size
    return coarse[:, :, rows][:, :, :, rows] + 0.3 * rng.standard_normal(
        (count, 3, size, size), "float32"
    )
