"""Specs as text: how a module, a tuning record and a report carry them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import tirx

from schedules.spec.arithmetic import Arithmetic
from schedules.spec.elementwise import Binary, Bound, Dequantize, Quantize, Rescale, Table
from schedules.spec.functions import Gelu, Sigmoid
from schedules.spec.interpolating import Bilinear, Interpolate
from schedules.spec.linear import Conv2d, Dense
from schedules.spec.movement import Concat, Move
from schedules.spec.normalizing import Normalize, Softmax
from schedules.spec.open_size import OpenConv2d, OpenPack, OpenPool2d, OpenUnpack
from schedules.spec.pooling import Pool2d
from schedules.spec.product import Attention, Product
from schedules.spec.recurrence import Recurrence
from schedules.spec.sampling import Sample2d
from schedules.spec.statistics import ChannelExtremes, ChannelMeans, Observe
from schedules.spec.suppression import Suppression

Spec = (
    Conv2d
    | OpenConv2d
    | OpenUnpack
    | OpenPack
    | OpenPool2d
    | Arithmetic
    | Dense
    | Pool2d
    | Binary
    | Bound
    | Rescale
    | Table
    | Quantize
    | Dequantize
    | Concat
    | Move
    | Observe
    | ChannelMeans
    | ChannelExtremes
    | Sample2d
    | Sigmoid
    | Gelu
    | Interpolate
    | Bilinear
    | Product
    | Attention
    | Normalize
    | Softmax
    | Recurrence
    | Suppression
)
SPECS: dict[str, type[Spec]] = {
    cls.kind: cls
    for cls in (
        Conv2d,
        OpenConv2d,
        OpenUnpack,
        OpenPack,
        OpenPool2d,
        Arithmetic,
        Dense,
        Pool2d,
        Binary,
        Bound,
        Rescale,
        Table,
        Quantize,
        Dequantize,
        Concat,
        Move,
        Observe,
        ChannelMeans,
        ChannelExtremes,
        Sample2d,
        Sigmoid,
        Gelu,
        Interpolate,
        Bilinear,
        Product,
        Attention,
        Normalize,
        Softmax,
        Recurrence,
        Suppression,
    )
}
TIMES = "_times_"
_SIZES = ("batch", "rows")
"""Fields that hold a size by itself; all other sizes stand in shapes."""
_UNSAID = {
    "half": False,
    "requantize": "float",
    "activation": None,
    "weights": "int8",
    "sum_first": False,
    "shifted": False,
    "given": False,
}
"""Fields that are left out where they have this value: texts from before them stay the same."""


def to_json(spec: Spec) -> str:
    """Return ``spec`` as JSON text; symbolic sizes are written as their names."""
    # Not asdict, which would copy symbolic sizes: a serialization of TVM each.
    values = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}
    fields = {"kind": spec.kind, **values}
    for name, unsaid in _UNSAID.items():
        if name in fields and fields[name] == unsaid:
            del fields[name]
    return json.dumps(fields, default=size_name)


def size_name(size: tirx.Var | tvm.ir.Expr) -> str:
    """Return the name of a symbolic size: of a variable, or of one that is a multiple of it.

    ``batch * 5 * 7`` is "batch_times_35": the rows of a dense layer on tensors of several axes.

    Raises
    ------
    ValueError
        If it is another expression.
    """
    if isinstance(size, tirx.Var):
        return str(size.name)
    factor, variables = factors(size)
    if len(variables) != 1:
        raise ValueError(f"size {size} of a kernel is no multiple of one variable")
    return f"{variables[0].name}{TIMES}{factor}"


def sized(name: str, sizes: Mapping[str, tvm.ir.Expr]) -> tvm.ir.Expr:
    """Return the size that has a name, in variables by name; see :func:`size_name`."""
    variable, times, factor = name.partition(TIMES)
    return sizes[variable] * int(factor) if times else sizes[variable]


def factors(size: tvm.ir.Expr) -> tuple[int, list[tirx.Var]]:
    """Return the number and the variables of a product; no variables of another expression."""
    if isinstance(size, tirx.Var):
        return 1, [size]
    if isinstance(size, tirx.IntImm):
        return int(size.value), []
    if not isinstance(size, tirx.Mul):
        return 1, []
    (a, left), (b, right) = factors(size.a), factors(size.b)
    return a * b, left + right


def from_json(text: str) -> Spec:
    """Return the spec that :func:`to_json` wrote; one fresh symbolic size for each name."""
    fields = json.loads(text)
    cls, symbols = SPECS[fields.pop("kind")], dict[str, tirx.Var]()

    def _restored(value: Any, is_size: bool) -> Any:
        if isinstance(value, list):
            return tuple(_restored(item, True) for item in value)
        if is_size and isinstance(value, str):
            return symbols.setdefault(value, tirx.Var(value, "int64"))
        return value

    return cls(**{key: _restored(value, key in _SIZES) for key, value in fields.items()})
