"""What a user says of a model file that the file itself may leave open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from relay_int8.argument_types import checked
from relay_int8.errors import ConfigError

Shapes = Mapping[str, Sequence[int]]
NO_SHAPES: Shapes = MappingProxyType({})
Values = Mapping[str, float | bool | Sequence[float | bool]]
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
        Name -> number or truth value, or several in row order, of inputs that never change: they
        are constants of the network then, and what they choose is chosen. Of ONNX models.
    outputs
        Tensors of the file that are the outputs, in place of those that it names; what no output
        depends on is left out. Not of PyTorch programs.
    params
        File of the weights, where it is another one and not found beside the model.
    """

    batch: int | None = None
    inputs: Shapes = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    outputs: Sequence[str] = ()
    params: Path | None = None


def shape_option(name: str, shape: Sequence[int]) -> str:
    """Return how a user gives the shape of an input, for messages."""
    return f"ImportOptions(inputs={{{name!r}: {tuple(shape)}}})"


def value_option(name: str, values: Sequence[float] = ()) -> str:
    """Return how a user gives the value of an input, for messages."""
    text = ", ".join(map(str, values)) or "..."
    return f"ImportOptions(values={{{name!r}: {f'({text})' if len(values) > 1 else text}}})"


def output_option(names: Sequence[str], *, more: bool = False) -> str:
    """Return how a user makes outputs of tensors, for messages; ``more`` than are named."""
    tensors = [*map(repr, names), *(["..."] if more else [])]
    return f"ImportOptions(outputs=[{', '.join(tensors)}])"


def refuse_params(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for a file of weights, where the model itself holds them."""
    if options.params:
        raise ConfigError(f"{path} holds its weights itself; leave ImportOptions(params=...) out")


def require_tensors(outputs: Sequence[str], known: Collection[str]) -> None:
    """Raise ConfigError if one of ``outputs`` is no tensor that an operator of the file gives."""
    for name in outputs:
        if name not in known:
            near = get_close_matches(name, known, cutoff=0.4)
            said = f"; near it: {', '.join(near)}" if near else ""
            raise ConfigError(f"{output_option([name])}: the file computes no such tensor{said}")
    if len(set(outputs)) < len(outputs):
        raise ConfigError(f"{output_option(outputs)}: a tensor is named twice")


def require_input(name: str, option: str, known: Iterable[str]) -> None:
    """Raise ConfigError if an option is of an input that the model has not."""
    names = list(known)
    if name not in names:
        raise ConfigError(f"{option}: the model has no such input; it has {', '.join(names)}")


def refuse_outputs(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for outputs that a user names of a program, which cannot be cut."""
    for name in options.outputs:
        raise ConfigError(
            f"{output_option([name])}: {path} is a PyTorch program; export a module that returns "
            "that tensor"
        )


def refuse_values(path: Path, options: ImportOptions) -> None:
    """Raise ConfigError for values of inputs, which other formats than ONNX leave to the export."""
    for name in options.values:
        raise ConfigError(
            f"{value_option(name)}: inputs of ONNX models can be given a value; {path} is none: "
            "export it with that number as a constant"
        )
