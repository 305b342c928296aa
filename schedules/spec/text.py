"""Specs as text: how a module, a tuning record and a report carry them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tvm import tirx

from schedules.spec.elementwise import Binary, Bound, Dequantize, Quantize, Rescale, Table
from schedules.spec.functions import Gelu, Sigmoid
from schedules.spec.interpolating import Interpolate
from schedules.spec.linear import Conv2d, Dense
from schedules.spec.movement import Concat, Move
from schedules.spec.normalizing import Normalize, Softmax
from schedules.spec.pooling import Pool2d
from schedules.spec.product import Attention, Product
from schedules.spec.sampling import Sample2d
from schedules.spec.statistics import Observe

Spec = (
    Conv2d
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
    | Sample2d
    | Sigmoid
    | Gelu
    | Interpolate
    | Product
    | Attention
    | Normalize
    | Softmax
)
SPECS: dict[str, type[Spec]] = {
    cls.kind: cls
    for cls in (
        Conv2d,
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
        Sample2d,
        Sigmoid,
        Gelu,
        Interpolate,
        Product,
        Attention,
        Normalize,
        Softmax,
    )
}
_SIZES = ("batch", "rows")
"""Fields that hold a size by itself; all other sizes stand in shapes."""
_UNSAID = {"half": False, "requantize": "float"}
"""Fields that are left out where they have this value: texts from before them stay the same."""


def to_json(spec: Spec) -> str:
    """Return ``spec`` as JSON text; symbolic sizes are written as their names."""
    fields = {"kind": spec.kind, **dataclasses.asdict(spec)}
    for name, unsaid in _UNSAID.items():
        if fields.get(name) == unsaid:
            del fields[name]
    return json.dumps(fields, default=lambda size: size.name)


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
