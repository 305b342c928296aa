"""Can a group be computed in integers at all, and if not, why: ``refusal(group)``."""

from __future__ import annotations

import math
from collections.abc import Callable

from relay_int8.graph import dataflow
from relay_int8.graph.contractions import multiply_accumulates
from relay_int8.graph.groups import AFFINE, INTERPOLATE, PAIRS, SAMPLE, Group, Leaky, pad_value
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics.interpolation import COORDINATES
from relay_int8.numerics.unary import UNARY


def refusal(group: Group) -> str | None:
    """Say why ``group`` has no integer form, or None."""
    check = _never if group.kind in UNARY else _CHECKS.get(group.kind)
    if check is None:
        return f"{group.kind} has no integer form"
    if not group.inputs:
        return "it reads constants alone"
    if not all(dataflow.shape(tensor) for tensor in (*group.inputs, group.output)):
        return "it reads or gives a scalar"  # kernels loop over axes
    floats = [var for var in group.inputs if dataflow.dtype(var) != "float32"]
    if floats:
        return f"input {floats[0].name} is {dataflow.dtype(floats[0])}, not float32"
    return check(group)


def macs(group: Group) -> int:
    """Return the multiply-accumulates of ``group``, of two activations too; 0 for other kinds."""
    return multiply_accumulates(group.root)


def _conv2d(group: Group) -> str | None:
    attrs = group.root.attrs
    if group.weight is None:
        return "its weights are not constant"
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW"):
        return f"its layout is {attrs.data_layout} / {attrs.kernel_layout}, not NCHW / OIHW"
    return None


def _dense(group: Group) -> str | None:
    if group.weight is None and len(group.inputs) < len(group.root.args):
        return "its first operand is a constant; only a constant second one, weights, is supported"
    if group.weight is None:
        return "it multiplies two activations; only constant weights are supported"
    if group.weight.values.ndim != 2:
        return f"its weights have {group.weight.values.ndim} dimensions, not 2"
    return None


def _concat(group: Group) -> str | None:
    whole = len(group.inputs) == len(dataflow.arguments(group.root))
    return None if whole else "one of its operands is a constant"


def _sample(group: Group) -> str | None:
    spec = spec_of(group.root)
    whole = spec is not None and len(group.inputs) + len(group.floats) == len(spec.tensors)
    return None if whole else "its image, offsets or mask are a constant"


def _pair(group: Group) -> str | None:
    if len(group.inputs) != 2:
        return "one of its operands is a constant"
    a, b = (dataflow.shape(var) for var in group.inputs)
    if a != dataflow.shape(group.root) or len(a) != len(b):
        return f"it broadcasts {a} and {b} both ways"
    return None


def _pool(group: Group) -> str | None:
    layout = group.root.attrs.layout
    return None if layout == "NCHW" else f"its layout is {layout}, not NCHW"


def _avg_pool(group: Group) -> str | None:
    if any(int(extent) != 1 for extent in group.root.attrs.dilation):
        return "average pooling with dilation"
    return _pool(group)


def _pad(group: Group) -> str | None:
    mode, value = group.root.attrs.pad_mode, pad_value(group)
    if mode not in ("constant", "replicate", "reflect"):
        return f"it pads with {mode}; only a constant, edge and reflect are supported"
    if not math.isfinite(value):
        return f"it pads with {value}, which no integer stands for"
    widths = [int(width) for width in group.root.attrs.pad_width]
    for size, *both in zip(dataflow.shape(group.inputs[0]), widths[::2], widths[1::2], strict=True):
        if mode == "reflect" and max(both) > 0 and max(both) >= size:
            return f"it mirrors {max(both)} elements of {size}"
    return "it has negative widths" if min(widths) < 0 else None


def _resize(group: Group) -> str | None:
    attrs = group.root.attrs
    if attrs.layout != "NCHW":
        return f"its layout is {attrs.layout}, not NCHW"
    found = (attrs.method, attrs.coordinate_transformation_mode, attrs.rounding_method)
    if found[0] != "nearest_neighbor":
        return f"{found[0]} interpolation; only nearest and linear are supported"
    (_, _, h, w), (_, _, oh, ow) = dataflow.shape(group.inputs[0]), dataflow.shape(group.root)
    if found[1:] == ("asymmetric", "floor"):
        return None
    whole = oh % h == 0 and ow % w == 0
    if found[1] == "half_pixel" and found[2].startswith("round") and whole:
        return None  # rounds to floor(y index * size ratio), as asymmetric / floor does
    return f"{found[1]} coordinates with {found[2]}"


def _interpolate(group: Group) -> str | None:
    attrs = group.root.attrs
    if attrs.layout != "NCHW":
        return f"its layout is {attrs.layout}, not NCHW"
    coordinates = attrs.coordinate_transformation_mode
    return None if coordinates in COORDINATES else f"{coordinates} coordinates"


def _slice(group: Group) -> str | None:
    if any(step < 1 for step in dataflow.slice_steps(group.root)[1]):
        return "it slices with a negative step"
    return None


def _never(group: Group) -> str | None:
    return None


def _activation(group: Group) -> str | None:
    if group.activation is None:
        return "its slopes are not constant per channel"
    if isinstance(group.activation, Leaky) and len(dataflow.shape(group.root)) < 2:
        return "its slopes are those of channels, and a vector has none"
    return None


_CHECKS: dict[str, Callable[[Group], str | None]] = {
    "conv2d": _conv2d,
    "dense": _dense,
    "function": _never,
    AFFINE: _never,
    **dict.fromkeys(PAIRS, _pair),
    "concat": _concat,
    "max_pool2d": _pool,
    "avg_pool2d": _avg_pool,
    "reshape": _never,
    "transpose": _never,
    "slice": _slice,
    "shuffle": _never,
    "pad": _pad,
    "resize": _resize,
    INTERPOLATE: _interpolate,
    "activation": _activation,
    SAMPLE: _sample,
}
