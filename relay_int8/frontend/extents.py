"""Shapes of a model's inputs: what its file says of them, with what the user says of open extents.

An extent that a file leaves open may have a label. Open extents of one label are one extent: what
is said of one input fixes the others. A batch that nobody fixes is 1, with a notice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from relay_int8.errors import ConfigError, FrontendError
from relay_int8.frontend.importing import check_batch
from relay_int8.frontend.options import Shapes, require_input, shape_option
from relay_int8.notices import notice

Extent = int | str | None
"""A number, the label of an open extent, or None for one without a label."""
Written = Mapping[str, Sequence[Extent]]

EXAMPLES = {2: (1, 128), 3: (1, 80, 1000), 4: (1, 3, 224, 224)}
"""Rank -> a shape that such an input may have, for messages."""


def input_shapes(written: Written, given: Shapes, batch: int | None) -> dict[str, list[int]]:
    """Return the shape of every input.

    Parameters
    ----------
    written
        Name -> extents, as the file has them.
    given
        Name -> shape, as the user has it; it may leave out inputs.
    batch
        Leading extent of every input, in place of the file's; None if the user does not say.

    Raises
    ------
    ConfigError
        ``given`` names no input, or differs from the file, from ``batch`` or from itself.
    FrontendError
        Extents stay open, or one is not positive.
    """
    check_batch(batch)
    for name, shape in given.items():
        _check_given(name, shape, written, batch)
    known = _labelled(written, given, batch)
    shapes = {}
    for name, extents in written.items():
        said: list[Extent] = [*given.get(name, ())]
        said = said or [known.get(extent, extent) for extent in extents]
        if said and batch is not None:
            said[0] = batch
        if said and not isinstance(said[0], int):
            said[0] = _single(name, said[0], known)
        shapes[name] = [_extent(name, axis, extent, extents) for axis, extent in enumerate(said)]
    return shapes


def fixed_batch(
    written: Written, shapes: Mapping[str, Sequence[int]], batch: int | None
) -> int | None:
    """Return the one batch of ``shapes`` that is not the file's, or None."""
    if batch is not None:
        return batch
    chosen = {shape[0] for name, shape in shapes.items() if shape and written[name][0] != shape[0]}
    return chosen.pop() if len(chosen) == 1 else None


def _single(name: str, label: Extent, known: dict[Extent, Extent]) -> int:
    """Return a batch of 1 for an open one, and give notice of it once."""
    if label not in known:
        named = "" if label is None else f" ({label!r})"
        notice(
            f"input {name} leaves its batch open{named}; batch 1 is taken: "
            "pass ImportOptions(batch=N) for another"
        )
        known[label] = 1
    return 1


def _check_given(name: str, shape: Sequence[int], written: Written, batch: int | None) -> None:
    """Refuse a shape that the file, or the batch, contradicts; its leading extent may be new."""
    option = shape_option(name, shape)
    require_input(name, option, written)
    extents = written[name]
    fixed = [
        axis
        for axis, (asked, extent) in enumerate(zip(shape, extents, strict=False))
        if axis and isinstance(extent, int) and asked != extent
    ]
    if len(shape) != len(extents):
        raise ConfigError(
            f"{option}: a shape of rank {len(shape)} given, {len(extents)} expected; the file has "
            f"{_text(extents)}"
        )
    if fixed:
        raise ConfigError(
            f"{option}: the file has {_text(extents)}; only extents that it leaves open, and the "
            "batch, may be chosen: export the model with another shape"
        )
    if batch is not None and shape and shape[0] != batch:
        raise ConfigError(f"{option} and batch {batch} are both asked for; choose one")


def _labelled(written: Written, given: Shapes, batch: int | None) -> dict[Extent, Extent]:
    """Return label -> extent, as far as the user says."""
    known: dict[Extent, Extent] = {}
    for label, name, extent in _said(written, given, batch):
        if known.setdefault(label, extent) != extent:
            raise ConfigError(
                f"input {name}: its dimension {label!r} would be {extent} here and {known[label]} "
                "elsewhere; the file has one name for both: give them one extent"
            )
    return known


def _said(written: Written, given: Shapes, batch: int | None) -> Iterator[tuple[str, str, int]]:
    """Yield the labels of open extents with the input and the number that the user says."""
    for name, extents in written.items():
        if batch is not None and extents and isinstance(extents[0], str):
            yield extents[0], name, batch
        for label, extent in zip(extents, given.get(name, ()), strict=False):
            if isinstance(label, str):
                yield label, name, extent


def _extent(name: str, axis: int, extent: Extent, written: Sequence[Extent]) -> int:
    """Return an extent; FrontendError if it is open or no extent."""
    if isinstance(extent, int):
        if not 0 < extent < 2**31:
            raise FrontendError(
                f"input {name} is {_text(written)}, its dimension {axis} would be {extent}; "
                "extents are from 1 to 2147483647"
            )
        return extent
    label = extent or "?"
    example = EXAMPLES.get(len(written), (1,) * len(written))
    shape = [e if isinstance(e, int) else example[i] for i, e in enumerate(written)]
    raise FrontendError(
        f"input {name} leaves dimension {axis} open ({label!r}): its shape is {_text(written)}; "
        f"say what it shall be, as {shape_option(name, shape)}"
    )


def _text(extents: Sequence[Extent]) -> str:
    return f"[{', '.join('?' if extent is None else str(extent) for extent in extents)}]"
