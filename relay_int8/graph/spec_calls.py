"""A kernel in a Relax module before it has a target: a call that carries its spec as text.

``R.call_dps_packed('{"kind": "conv2d", ...}', (x, w, bias, ...), out_ty)``: valid Relax, opaque to
TVM's own passes, replaced by ``call_tir`` of a template's PrimFunc in AlterLayout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tvm import relax

from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from schedules.spec import Spec, from_json, to_json


def kernel_call(
    spec: Spec,
    tensors: Sequence[relax.Expr],
    params: Mapping[str, np.ndarray | relax.Expr],
    *,
    like: relax.Var | None = None,
) -> relax.Call:
    """Return the call of ``spec`` on ``tensors`` (in the order of ``spec.tensors``).

    A spec that was read from a call has variables of its own for an open batch: ``like`` is a
    tensor of the result's shape, in those of the network.

    Raises
    ------
    UnsupportedOpError
        If a size is open and no multiple of the batch.
    """
    constants = [_expression(params[name]) for name in spec.params]
    dims = spec.shape("y") if like is None else dataflow.shape(like)
    out = relax.TensorType(dims, spec.dtype("y"))
    try:
        text = to_json(spec)
    except ValueError as error:
        raise UnsupportedOpError(f"{error}; build the network for a fixed batch") from error
    return relax.call_dps_packed(text, [*tensors, *constants], out)


def spec_of(value: relax.Expr) -> Spec | None:
    """Return the spec that a call carries, or None where it is another expression."""
    if dataflow.operator(value) != "call_dps_packed":
        return None
    name = str(value.args[0].global_symbol)
    return from_json(name) if name.startswith("{") else None


def operands(
    value: relax.Call, spec: Spec
) -> tuple[list[relax.Expr], dict[str, np.ndarray | relax.Expr]]:
    """Return the tensors of a call and its parameters by name: arrays, where they are constant."""
    fields = list(value.args[1].fields)
    count = len(spec.tensors)
    params = {
        name: expr if (array := dataflow.constant(expr)) is None else array
        for name, expr in zip(spec.params, fields[count:], strict=True)
    }
    return fields[:count], params


def _expression(value: np.ndarray | relax.Expr) -> relax.Expr:
    return relax.const(value) if isinstance(value, np.ndarray) else value
