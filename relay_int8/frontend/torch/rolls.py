"""PyTorch operators that move a tensor along axes: what leaves at one end enters at the other."""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import shape


def _roll(step: TorchStep) -> Result:
    """Move along axes, what leaves at one end enters at the other; all elements without axes."""
    shifts, dims = step.integers("shifts"), step.integers("dims", [])
    if not dims:
        flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
        rolled = _rolled(step.emit, flat, 0, sum(shifts))
        return relax.op.reshape(rolled, shape(step.x))
    if len(shifts) != len(dims):
        raise ValueError(f"{len(shifts)} shifts of {len(dims)} axes")
    x = step.x
    for shift, axis in zip(shifts, dims, strict=True):
        x = _rolled(step.emit, x, axis_of(axis, step.rank), shift)
    return x


def _centred(back: bool) -> Converter:
    """Move the first element to the middle of axes, as spectra are shown; or ``back``."""

    def _convert(step: TorchStep) -> Result:
        x = step.x
        for axis in step.integers("dim", list(range(step.rank))):
            size = shape(x)[axis_of(axis, step.rank)]
            x = _rolled(step.emit, x, axis_of(axis, step.rank), -(size // 2) if back else size // 2)
        return x

    return _convert


def _rolled(emit: Emit, x: relax.Expr, axis: int, shift: int) -> relax.Expr:
    size = shape(x)[axis]
    begin = -shift % size
    if not begin:
        return x
    tail = emit("tail", relax.op.strided_slice(x, [axis], [begin], [size]))
    head = emit("head", relax.op.strided_slice(x, [axis], [0], [begin]))
    return emit("rolled", relax.op.concat([tail, head], axis))


ROLLS: dict[str, Converter] = {
    "fft_fftshift": _centred(back=False),
    "fft_ifftshift": _centred(back=True),
    "roll": _roll,
}
