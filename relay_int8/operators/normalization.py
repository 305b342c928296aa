"""The common record of norms: float32 kernels of rows, whose results a quantize may join."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.unsupported import Unsupported
from schedules.spec import Normalize


class Normalization(Unsupported):
    """A tensor whose rows get mean zero, or root mean square one; then gamma and beta."""

    rounds = True

    def float_refusal(self, group: Group) -> str | None:
        """Say where gamma or beta are no constants, and which axes no kernel takes together."""
        if len(group.inputs) > 1:
            return f"its gamma or beta {group.inputs[1].name} is not constant"
        return row_refusal(group) or self.axes_refusal(group)

    @abstractmethod
    def axes_refusal(self, group: Group) -> str | None:
        """Say why its axes are no row of the kernel, or None."""

    @abstractmethod
    def spec(self, group: Group) -> Normalize:
        """Return the spec of float32."""

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel; what is not scaled or shifted has gamma one or beta zero."""
        spec, (_, *factors), attrs = self.spec(group), group.root.args, group.root.attrs
        gamma, beta = np.ones(spec.channels, np.float32), np.zeros(spec.channels, np.float32)
        if getattr(attrs, "scale", True):
            gamma = _flat(factors[0], spec)
        if len(factors) > 1 and attrs.center:
            beta = _flat(factors[1], spec)
        numbers = {"epsilon": attrs.epsilon, "count": spec.size}
        constants = {name: np.array([value], np.float32) for name, value in numbers.items()}
        return spec, {"gamma": gamma, "beta": beta, **constants}


class TrailingAxes(Normalization):
    """A norm over the last axes."""

    centred = True

    def axes_refusal(self, group: Group) -> str | None:
        """Say which axes are not the last ones."""
        dims, axes = dataflow.shape(group.root), _axes(group)
        if axes != list(range(len(dims) - len(axes), len(dims))):
            return f"it normalizes axes {axes} of {len(dims)}, which are not the last ones"
        if len(axes) == len(dims) and not isinstance(dims[0], int):
            return "it normalizes the open batch"
        return None

    def spec(self, group: Group) -> Normalize:
        """Return the spec of float32."""
        dims = dataflow.shape(group.root)
        return Normalize(dims=dims, axes=len(_axes(group)), centred=self.centred, y=F32)


class ChannelGroupNorm(Normalization):
    """A norm over groups of channels, axis 1, and all axes behind."""

    def groups(self, group: Group) -> int:
        """Return how many groups the channels are."""
        raise NotImplementedError(self.kind)

    def axes_refusal(self, group: Group) -> str | None:
        """Say which axes are not all behind the channels."""
        rank, axes = len(dataflow.shape(group.root)), _axes(group)
        channel = int(group.root.attrs.channel_axis) % rank
        if channel != 1 or axes != list(range(2, rank)):
            return f"it normalizes axes {axes} of channel {channel}, not all axes behind axis 1"
        return None

    def spec(self, group: Group) -> Normalize:
        """Return the spec of float32."""
        return Normalize(dims=dataflow.shape(group.root), groups=self.groups(group), y=F32)


def row_refusal(group: Group) -> str | None:
    """Say why kernels of rows cannot take a tensor: one axis but the first is open, or empty."""
    dims = dataflow.shape(group.root)
    if not all(isinstance(size, int) for size in dims[1:]):
        return "an axis but the first has no fixed size"
    return "it has no element" if 0 in dims else None


def _axes(group: Group) -> list[int]:
    rank = len(dataflow.shape(group.root))
    return sorted(int(axis) % rank for axis in group.root.attrs.axes)


def _flat(factor: object, spec: Normalize) -> np.ndarray:
    values = dataflow.constant(factor)
    assert values is not None
    return np.ascontiguousarray(values.reshape(spec.channels).astype(np.float32))
