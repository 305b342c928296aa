"""Networks of random weights with what calibrates them and what is scored: the zoo's, and files.

A folder of files holds ``NAME.onnx``, ``NAME.calib.npz`` and ``NAME.test.npz``, inputs along the
first axis of each array, as ``benchmarks/torch_random.py`` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx

from benchmarks import zoo
from benchmarks.subject import Inputs, Subject
from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic

SCORED = 4
SIZES: Mapping[str, int] = {
    "resnet18": 96,
    "vgg19": 64,
    "inception_v3": 139,
    "densenet121": 64,
    "mobilenet_v2": 96,
    "unet": 96,
    "vit_s_16": 96,
    "swin_t": 56,
    "convnext_t": 96,
    "distilbert_3": 32,
}
"""Networks of the zoo, and heights and widths of their images, or numbers of tokens."""
CUT = ("swin_t",)
"""Those with a block of each kind, as the whole network takes images of one size alone."""


@dataclass(frozen=True, kw_only=True)
class RandomNetwork:
    """A float32 network of batch 1 with its inputs, arrays by name.

    Parameters
    ----------
    name
        For the table.
    model
        ONNX file.
    calibration, scored
        Inputs of batch 1; none is in both.
    """

    name: str
    model: Path
    calibration: Sequence[Inputs]
    scored: Sequence[Inputs]


def open_zoo(name: str, folder: Path) -> RandomNetwork:
    """Return a network of the zoo, whose file is written into ``folder``."""
    depth: zoo.Depth = "cut" if name in CUT else "full"
    subject = Subject(network=name, image_size=SIZES[name], depth=depth)
    model = folder / f"{name}.onnx"
    write_atomic(model, subject.model(batch=1).SerializeToString())
    # Inputs of another network with more calibration inputs: the first ones calibrate here.
    drawn = replace(subject, calibration_images=subject.calibration_images + SCORED).calibration()
    count = subject.calibration_images
    return RandomNetwork(name=name, model=model, calibration=drawn[:count], scored=drawn[count:])


def open_folder(folder: Path) -> list[RandomNetwork]:
    """Return the networks of a folder, by their names.

    Raises
    ------
    ConfigError
        There are none, or one has no inputs.
    """
    models = sorted(folder.glob("*.onnx"))
    if not models:
        raise ConfigError(f"{folder}: found no NAME.onnx; write some with benchmarks.torch_random")
    return [
        RandomNetwork(
            name=model.stem,
            model=model,
            calibration=_inputs(model, "calib"),
            scored=_inputs(model, "test"),
        )
        for model in models
    ]


def _inputs(model: Path, kind: str) -> list[Inputs]:
    file = model.with_suffix(f".{kind}.npz")
    if not file.exists():
        raise ConfigError(f"{model}: expected its inputs in {file.name}, found no such file")
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    names = [value.name for value in onnx.load(model, load_external_data=False).graph.input]
    if set(names) != set(arrays):
        raise ConfigError(f"{file}: holds {', '.join(arrays)}; the model reads {', '.join(names)}")
    count = len(next(iter(arrays.values())))
    return [{name: arrays[name][i : i + 1] for name in names} for i in range(count)]
