"""Norms whose channels dense layers read: a factor of a channel moves from gamma into weights.

norm over the last axis, of constant gamma and beta
    -> readers (dense with constant weights), one or more
    -> anything else: it reads the norm without factors
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import DENSE, Group
from relay_int8.graph.groups import find_groups

ROW_NORMS = ("nn.layer_norm", "nn.rms_norm")


@dataclass(frozen=True, kw_only=True)
class NormReaders:
    """A norm and what reads it.

    Parameters
    ----------
    norm
        Its group.
    readers
        Dense layers, whose weights take factors of channels back.
    others
        What else reads it.
    is_result
        Whether the network returns it.
    """

    norm: Group
    readers: tuple[Group, ...]
    others: tuple[Group, ...]
    is_result: bool

    @property
    def gamma(self) -> np.ndarray:
        """(channels,): what normalized values are multiplied by."""
        return _constant(self.norm, 1)

    @property
    def beta(self) -> np.ndarray:
        """(channels,): what is added then; zeros where the norm adds nothing."""
        if len(self.norm.root.args) < 3:
            return np.zeros_like(self.gamma)
        return _constant(self.norm, 2)

    @property
    def is_shared(self) -> bool:
        """Whether anything reads it that takes no factors."""
        return self.is_result or bool(self.others)


def find_norm_readers(func: relax.Function) -> list[NormReaders]:
    """Return the norms that dense layers read, of a normalized float function."""
    groups = find_groups(func)
    results = {str(var.name) for var in dataflow.results(func)}
    reading: dict[str, list[Group]] = {}
    for group in groups:
        for name in dict.fromkeys(str(var.name) for var in (*group.inputs, *group.floats)):
            reading.setdefault(name, []).append(group)
    found = []
    for norm in filter(_takes_factors, groups):
        behind = reading.get(norm.name, [])
        readers = tuple(group for group in behind if _reads_channels(group, norm))
        if readers:
            found.append(
                NormReaders(
                    norm=norm,
                    readers=readers,
                    others=tuple(group for group in behind if group not in readers),
                    is_result=norm.name in results,
                )
            )
    return found


def _takes_factors(group: Group) -> bool:
    """Whether a group is a norm of rows by a gamma and a beta for each channel."""
    if group.kind not in ROW_NORMS or len(group.members) != 1:
        return False
    dims, attrs = dataflow.shape(group.output), group.root.attrs
    if len(dims) in (1, dataflow.IMAGE) or [int(axis) % len(dims) for axis in attrs.axes] != [
        len(dims) - 1
    ]:
        return False
    constants = [dataflow.constant(arg) for arg in group.root.args[1:]]
    scaled = getattr(attrs, "scale", True) and getattr(attrs, "center", True)
    return scaled and all(each is not None and each.size == dims[-1] for each in constants)


def _reads_channels(group: Group, norm: Group) -> bool:
    """Whether a dense layer reads a norm as what it multiplies, and not as its residual too."""
    names = [str(var.name) for var in group.inputs]
    return (
        group.kind == DENSE
        and group.weight is not None
        and names.count(norm.name) == 1 == (names[:1].count(norm.name))
    )


def _constant(group: Group, position: int) -> np.ndarray:
    values = dataflow.constant(group.root.args[position])
    assert values is not None
    return values.reshape(-1)
