"""The common record of max and average pooling of images."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.channels import keeps_channels
from relay_int8.operators.images import windows
from relay_int8.operators.operator import Array, Holds, Operator


class Pool(Operator):
    """Pooling over windows of an image."""

    in_numpy = True
    reduce: ClassVar[Literal["max", "avg"]]

    def refusal(self, group: Group) -> str | None:
        """Say where the layout is not NCHW."""
        layout = group.root.attrs.layout
        return None if layout == "NCHW" else f"its layout is {layout}, not NCHW"

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Look at its input."""
        return bool(group.inputs) and all(var in known for var in group.inputs)

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return its input where channels stay: they are pooled apart."""
        return group.inputs if keeps_channels(group) else ()

    def fields(self, group: Group) -> dict[str, Any]:
        """Return the fields of ``Pool2d``, types left out."""
        attrs = group.root.attrs
        batch, channels, height, width = dataflow.shape(group.inputs[0])
        return {
            "reduce": self.reduce,
            "batch": batch,
            "channels": channels,
            "height": height,
            "width": width,
            "out_size": dataflow.shape(group.root)[2:],
            "kernel": tuple(map(int, attrs.pool_size)),
            "strides": tuple(map(int, attrs.strides)),
            "dilation": tuple(map(int, attrs.dilation)),
            "padding": tuple(map(int, attrs.padding))[:2],
        }

    def taps(self, group: Group, x: Array, fill: float) -> Array:
        """Return a view (n, c, oh, ow, kh, kw), padded positions ``fill``."""
        fields = self.fields(group)
        return windows(x, fields, fields["out_size"], fill)


def tap_list(taps: Array) -> list[np.ndarray]:
    """Return the taps of all windows, (n, c, oh, ow) each."""
    return [taps[..., i, j] for i, j in np.ndindex(taps.shape[4:])]
