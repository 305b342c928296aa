"""What a user says of a model file that the file itself may leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError

Shapes = Mapping[str, Sequence[int]]
NO_SHAPES: Shapes = MappingProxyType({})
Values = Mapping[str, float | Sequence[float]]
NO_VALUES: Values = MappingProxyType({})


@checked
@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What a model file itself may leave open.

    Parameters
    ----------
    batch
        Leading extent of every input; 1, with a notice, where the file leaves it open.
    inputs
        Name -> shape of data inputs, where the file does not hold it or leaves some of it open.
    values
        Name -> number, or numbers in row order, of inputs that never change: they are constants of
        the network then, and what they choose is chosen. Of ONNX models.
    params
        File of the weights, where it is another one and not found beside the model.
    """

    batch: int | None = None
    inputs: Shapes = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    params: Path | None = None


def refuse_params(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for a file of weights, where the model itself holds them."""
    if options.params:
        raise ConfigError(f"{path} holds itself what --params says; leave --params out")


def refuse_values(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for values of inputs, which other formats than ONNX leave to the export."""
    for name in options.values:
        raise ConfigError(
            f"--input {name}==...: inputs of ONNX models can be given a value; {path} is none: "
            "export it with that number as a constant"
        )
