"""What a user says of a model file that the file itself may leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relay_int8.errors import ConfigError

Shapes = Mapping[str, Sequence[int]]


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a model file itself may leave open.

    Parameters
    ----------
    batch
        Leading extent of every input.
    inputs
        Name -> shape of data inputs, for formats that do not hold them.
    params
        File of the weights, where it is another one and not found beside the model.
    """

    batch: int | None = None
    inputs: Shapes = field(default_factory=dict)
    params: Path | None = None


def refuse_options(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for shapes or a file of weights, where the model itself holds both."""
    for name, given in (("--input", options.inputs), ("--params", options.params)):
        if given:
            raise ConfigError(f"{path} holds itself what {name} says; leave {name} out")
