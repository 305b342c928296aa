"""The shapes of a model's inputs: what the file says, and what fixes the extents it leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay_int8.errors import ConfigError, FrontendError
from relay_int8.frontend.importing import check_batch
from relay_int8.frontend.options import Shapes
from relay_int8.messages import extents
from relay_int8.notices import notice

UNNAMED = "?"
Extent = int | str
"""A number, or the file's name of an open extent; UNNAMED where it has none."""


def fixed_shapes(
    declared: Mapping[str, Sequence[Extent]], batch: int | None, given: Shapes | None = None
) -> dict[str, list[int]]:
    """Return every input's shape in numbers; an open batch that nobody fixes is 1, with a notice.

    Parameters
    ----------
    declared
        Name -> shape, as the file has it.
    batch
        Leading extent of every input, in place of the file's.
    given
        Name -> shape; may fix what is open, and must agree with what is not.

    Raises
    ------
    ConfigError
        There is no such input, or a given shape contradicts the file's or the batch.
    FrontendError
        Another extent than the batch stays open.
    """
    check_batch(batch)
    given = given or {}
    for name in given:
        if name not in declared:
            raise ConfigError(
                f"--input {name}: the model has no such input; there are {', '.join(declared)}"
            )
    shapes = {
        name: _filled(name, shape, batch, given.get(name)) for name, shape in declared.items()
    }
    opened = [name for name, shape in shapes.items() if shape and isinstance(shape[0], str)]
    if opened:
        label = shapes[opened[0]][0]
        named = "" if label == UNNAMED else f" ({label!r})"
        notice(
            f"input {opened[0]} leaves its batch open{named}; batch 1 is taken: "
            "pass --batch N, or ImportOptions(batch=N), for another"
        )
    return {name: _numbers(name, shape) for name, shape in shapes.items()}


def _filled(
    name: str, declared: Sequence[Extent], batch: int | None, given: Sequence[int] | None
) -> list[Extent]:
    """Return a shape with the extents that the user gave."""
    shape = list(declared)
    if given is not None:
        held = shape if batch is None or not shape else [batch, *shape[1:]]
        fits = len(given) == len(held) and all(
            isinstance(extent, str) or extent == wanted
            for extent, wanted in zip(held, given, strict=True)
        )
        if not fits:
            asked = "" if batch is None else f" with batch {batch}"
            file = " x ".join(map(str, shape))
            raise ConfigError(
                f"--input {name}: {extents(given)} found{asked}, the file says {file}; "
                "give numbers for what it leaves open, and its own for the others"
            )
        shape = list(given)
    if shape and batch is not None:
        shape[0] = batch
    return shape


def _numbers(name: str, shape: Sequence[Extent]) -> list[int]:
    """Return a shape without names, its batch 1 if it is still open."""
    numbers = []
    for axis, extent in enumerate(shape):
        if isinstance(extent, str) and axis > 0:
            named = "" if extent == UNNAMED else f" ({extent!r})"
            example = ",".join("N" if isinstance(each, str) else str(each) for each in shape[1:])
            raise FrontendError(
                f"input {name} leaves dimension {axis} open{named}; fix it with --input "
                f"{name}=1,{example}, or ImportOptions(inputs=...), numbers in place of N"
            )
        numbers.append(1 if isinstance(extent, str) else extent)
    return numbers
