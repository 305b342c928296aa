"""What a kernel computes: one frozen dataclass per operator, no target, no layout, no tile.

Shapes are logical (NCHW for images). A kernel's arguments are, in this order, ``tensors`` (the
activations), ``params`` (constants) and the output. Constants that belong to a model (multipliers,
biases, zero points, clamp bounds, tables) are arguments, never fields: two layers of equal shape
are one spec, and share one tuned kernel.

Arithmetic (docs/design.md): ``requantize(a, m) = int(min(max(rint(float32(a) * m), clamp[0]),
clamp[1])) + z_y`` with ``clamp = (qmin - z_y, qmax - z_y)`` as float32 and rint half-to-even.
Where ``y`` is "float32" the result is ``min(max(float32(a) * m, clamp[0]), clamp[1])``.
With fixed-point multipliers it is ``int(min(max(shift_right(int64(a) * m, shift), clamp[0]),
clamp[1])) + z_y``, all of it integers.
"""

from __future__ import annotations

from schedules.rounding import ROUNDINGS, Requantize, Rounding
from schedules.spec.activations import GATES, GATES_ALONE, Activation, Gate
from schedules.spec.arithmetic import Arithmetic
from schedules.spec.elementwise import (
    QUOTIENTS,
    ZERO_DIVISOR,
    Binary,
    Bound,
    Dequantize,
    Quantize,
    Rescale,
    Table,
)
from schedules.spec.functions import Gelu, Sigmoid
from schedules.spec.interpolating import Bilinear, Interpolate
from schedules.spec.linear import PER_CHANNEL, Conv2d, Dense
from schedules.spec.movement import Concat, Move
from schedules.spec.normalizing import Normalize, Softmax
from schedules.spec.open_size import LAST, OpenConv2d, OpenPack, OpenPool2d, OpenUnpack
from schedules.spec.operator_spec import (
    DType,
    OperatorSpec,
    Padding,
    Pair,
    QType,
    Shape,
    Size,
    WeightType,
)
from schedules.spec.pooling import Pool2d
from schedules.spec.product import Attention, Product, Strides
from schedules.spec.recurrence import Cell, Recurrence
from schedules.spec.requantizing import Requantizing, shift_of
from schedules.spec.sampling import Sample2d
from schedules.spec.statistics import MAGNITUDE, SIGNED, ChannelExtremes, ChannelMeans, Observe
from schedules.spec.suppression import Suppression
from schedules.spec.text import SPECS, Spec, from_json, sized, to_json

__all__ = [
    "GATES",
    "GATES_ALONE",
    "LAST",
    "MAGNITUDE",
    "PER_CHANNEL",
    "QUOTIENTS",
    "ROUNDINGS",
    "SIGNED",
    "SPECS",
    "ZERO_DIVISOR",
    "Activation",
    "Arithmetic",
    "Attention",
    "Bilinear",
    "Binary",
    "Bound",
    "Cell",
    "ChannelExtremes",
    "ChannelMeans",
    "Concat",
    "Conv2d",
    "DType",
    "Dense",
    "Dequantize",
    "Gate",
    "Gelu",
    "Interpolate",
    "Move",
    "Normalize",
    "Observe",
    "OpenConv2d",
    "OpenPack",
    "OpenPool2d",
    "OpenUnpack",
    "OperatorSpec",
    "Padding",
    "Pair",
    "Pool2d",
    "Product",
    "QType",
    "Quantize",
    "Recurrence",
    "Requantize",
    "Requantizing",
    "Rescale",
    "Rounding",
    "Sample2d",
    "Shape",
    "Sigmoid",
    "Size",
    "Softmax",
    "Spec",
    "Strides",
    "Suppression",
    "Table",
    "WeightType",
    "from_json",
    "shift_of",
    "sized",
    "to_json",
]
