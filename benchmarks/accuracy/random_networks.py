"""Networks of random weights with what calibrates them and what is scored: the zoo's, and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import zoo
from benchmarks.subject import Inputs, Subject, files
from relay_int8.files import write_atomic

CALIBRATED, SCORED = 8, 4
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


def open_zoo(
    name: str, folder: Path, size: int | None = None, count: int = CALIBRATED
) -> RandomNetwork:
    """Return a network of the zoo, whose file is written into ``folder``.

    Images are of ``size``, or of that in :data:`SIZES`, or as the network was published;
    ``count`` of them calibrate.
    """
    depth: zoo.Depth = "cut" if name in CUT else "full"
    size = size or SIZES.get(name) or zoo.default_size(name)
    subject = Subject(network=name, image_size=size, calibration_images=count, depth=depth)
    model = folder / f"{name}.onnx"
    write_atomic(model, subject.model(batch=1).SerializeToString())
    # Inputs of another network with more calibration inputs: the first ones calibrate here.
    drawn = replace(subject, calibration_images=count + SCORED).calibration()
    return RandomNetwork(name=name, model=model, calibration=drawn[:count], scored=drawn[count:])


def open_folder(folder: Path) -> list[RandomNetwork]:
    """Return the networks of a folder, by their names; see :func:`benchmarks.subject.files`."""
    return [
        RandomNetwork(
            name=found.network,
            model=found.file,
            calibration=found.calibration(),
            scored=found.scored(),
        )
        for found in files(folder)
    ]
