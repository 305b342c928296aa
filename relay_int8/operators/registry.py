"""Every operator, in one table; what is true of all kinds alike."""

from __future__ import annotations

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.numerics.unary import UNARY
from relay_int8.operators.activation import Activation
from relay_int8.operators.add import Add
from relay_int8.operators.affine import Affine
from relay_int8.operators.attention import Attention
from relay_int8.operators.avg_pool2d import AvgPool2d
from relay_int8.operators.concat import Concat
from relay_int8.operators.conv2d import Conv2d
from relay_int8.operators.dense import Dense
from relay_int8.operators.divide import Divide
from relay_int8.operators.function import Function, Gelu, Sigmoid, Unary
from relay_int8.operators.group_norm import GroupNorm
from relay_int8.operators.instance_norm import InstanceNorm
from relay_int8.operators.interpolate import Interpolate
from relay_int8.operators.layer_norm import LayerNorm
from relay_int8.operators.linear import Linear
from relay_int8.operators.max_pool2d import MaxPool2d
from relay_int8.operators.maximum import Maximum
from relay_int8.operators.minimum import Minimum
from relay_int8.operators.multiply import Multiply
from relay_int8.operators.operator import Operator
from relay_int8.operators.pad import Pad
from relay_int8.operators.product import Product
from relay_int8.operators.recurrence import Recurrence
from relay_int8.operators.reshape import Reshape
from relay_int8.operators.resize import Resize
from relay_int8.operators.rms_norm import RmsNorm
from relay_int8.operators.sample import Sample
from relay_int8.operators.shuffle import Shuffle
from relay_int8.operators.slice import Slice
from relay_int8.operators.softmax import Softmax
from relay_int8.operators.subtract import Subtract
from relay_int8.operators.transpose import Transpose
from relay_int8.operators.unsupported import Unsupported
from schedules.rounding import Requantize

RECORDS: tuple[Operator, ...] = (
    Conv2d(),
    Dense(),
    Product(),
    Attention(),
    Add(),
    Subtract(),
    Multiply(),
    Divide(),
    Maximum(),
    Minimum(),
    Affine(),
    Activation(),
    Function(),
    Sigmoid(),
    Gelu(),
    *(Unary(kind) for kind in UNARY if kind not in ("sigmoid", "nn.gelu")),
    MaxPool2d(),
    AvgPool2d(),
    Concat(),
    Reshape(),
    Transpose(),
    Slice(),
    Shuffle(),
    Pad(),
    Resize(),
    Interpolate(),
    Sample(),
    Recurrence(),
    Softmax(),
    LayerNorm(),
    RmsNorm(),
    GroupNorm(),
    InstanceNorm(),
)

OPERATORS = {record.kind: record for record in RECORDS}
"""Kind of group -> its record."""


def operator_of(group: Group) -> Operator:
    """Return the record of a group's kind."""
    return OPERATORS.get(group.kind) or Unsupported(group.kind)


def linear_of(layer: Group) -> Linear:
    """Return the record of a convolution or dense layer."""
    record = operator_of(layer)
    assert isinstance(record, Linear)
    return record


def refusal(group: Group, requantize: Requantize = "float") -> str | None:
    """Say why ``group`` cannot be computed in integers that are scaled so, or None."""
    record = operator_of(group)
    if isinstance(record, Unsupported):
        return record.refusal(group)
    unable = _misfit(group) or record.refusal(group)
    if unable is None and requantize != "float" and not record.in_fixed_point:
        operator = dataflow.operator(group.root)
        name = group.kind if operator == "call_dps_packed" else operator
        return f"{name} has no fixed-point form"
    return unable


def float_refusal(group: Group) -> str | None:
    """Say why ``group`` has no float kernel of this project's own, or None."""
    return _misfit(group) or operator_of(group).float_refusal(group)


def _misfit(group: Group) -> str | None:
    """Say which tensors of ``group`` no kernel takes, or None."""
    if not group.inputs and not group.floats:
        return "it reads constants alone"
    if any(not isinstance(var.ty, relax.TensorType) for var in (*group.inputs, group.output)):
        return "it reads or gives several tensors as one"
    if not all(dataflow.shape(tensor) for tensor in (*group.inputs, group.output)):
        return "it reads or gives a scalar"  # kernels loop over axes
    floats = [var for var in group.inputs if dataflow.dtype(var) != "float32"]
    if floats:
        return f"input {floats[0].name} is {dataflow.dtype(floats[0])}, not float32"
    return None
