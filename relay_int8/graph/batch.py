"""The same network for another batch, and images as one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import IRModule, relax, tirx

from relay_int8.errors import ConfigError, UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.spec import Sample2d

BATCH = "batch"
UPPER_BOUND = "tir_var_upper_bound"
"""Attribute of a function by which TVM plans memory: name of a variable -> its largest value."""
UNLIKELY = 7919
"""A batch that is a factor of no shape: what follows it follows every batch."""
Array = np.ndarray[Any, Any]


def stacked(images: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return images, each with all inputs by name, as one batch in their order."""
    return {name: np.concatenate([image[name] for image in images]) for name in images[0]}


def batch_of(mod: IRModule) -> int:
    """Return the batch of a network: the first extent of its first input."""
    return dataflow.shape(mod["main"].params[0])[0]


def with_open_batch(mod: IRModule, most: int) -> IRModule:
    """Return a normalized module for every batch from 1 to ``most``; memory is planned for that.

    Raises
    ------
    UnsupportedOpError
        If an operator fixes the batch.
    """
    with_batch(mod, UNLIKELY)  # of an open batch TVM believes any shape; of a number it does not
    batch = tirx.Var(BATCH, "int64")
    opened = with_batch(mod, batch)
    opened["main"] = opened["main"].with_attr(UPPER_BOUND, {BATCH: most})
    return opened


def with_batch(mod: IRModule, batch: int | tirx.Var) -> IRModule:
    """Return a normalized module with another batch; ``mod`` itself is left alone.

    Every input's first axis is the batch. Shapes are inferred again; a reshape or an expansion that
    keeps the batch in front gets the new one, and so do constants that are joined to images.

    Raises
    ------
    ConfigError
        If a constant that is joined to images differs from image to image.
    UnsupportedOpError
        If an operator fixes the batch: a shape that it is a factor of, or a constant.
    """
    old = batch_of(mod)
    if isinstance(batch, int) and old == batch:
        return mod
    func = mod["main"]
    writer = dataflow.FunctionWriter()
    params = [
        relax.Var(
            param.name, relax.TensorType((batch, *dataflow.shape(param)[1:]), dataflow.dtype(param))
        )
        for param in func.params
    ]
    done: dict[relax.Var, relax.Expr] = dict(zip(func.params, params, strict=True))
    for var, value in dataflow.calls(func):
        operator = dataflow.operator(value)
        if operator in _SHAPED and dataflow.shape(var)[:1] == (old,):
            x = dataflow.substitute(value.args[0], done)
            new = _SHAPED[operator](x, (batch, *dataflow.shape(var)[1:]))
        elif operator == "concat" and int(value.attrs.axis or 0) % len(dataflow.shape(var)):
            fields = [dataflow.substitute(field, done) for field in value.args[0].fields]
            parts = [_repeated(writer, str(var.name), field, batch) for field in fields]
            new = relax.op.concat(parts, int(value.attrs.axis))
        elif isinstance(spec := spec_of(value), Sample2d):
            tensors, constants = operands(dataflow.substitute(value, done), spec)
            new = kernel_call(replace(spec, batch=batch), tensors, constants)
        else:
            new = dataflow.substitute(value, done)
            if isinstance(new, relax.Call):
                new = relax.Call(new.op, new.args, new.attrs)
        done[var] = _emitted(writer, var, new, batch)
    outputs = [done[var] for var in dataflow.results(func)]
    return writer.finish(params, outputs, dataflow.attributes(func))


def _repeated(
    writer: dataflow.FunctionWriter, name: str, part: relax.Expr, batch: int | tirx.Var
) -> relax.Expr:
    """Return ``part``, if it is a constant, once for every image of the batch."""
    array = dataflow.constant(part)
    if array is None:
        return part
    if (array != array[:1]).any():
        raise ConfigError(
            f"{name} joins images to a constant that differs from image to image; import the model "
            "with the batch that is wanted"
        )
    one = relax.const(array[:1], str(array.dtype))
    if isinstance(batch, int) and batch == 1:
        return one
    return writer.emit(f"{name}/constant", relax.op.broadcast_to(one, (batch, *array.shape[1:])))


_SHAPED: dict[str, Callable[..., relax.Expr]] = {
    "reshape": relax.op.reshape,
    "broadcast_to": relax.op.broadcast_to,
}


def _emitted(
    writer: dataflow.FunctionWriter, var: relax.Var, value: relax.Expr, batch: int | tirx.Var
) -> relax.Var:
    try:
        return writer.emit(var.name, value)
    except Exception as error:  # TVM's inference raises ValueError, TypeError and its own
        raise UnsupportedOpError(
            f"{var.name} ({dataflow.operator(value)}) gives {var.ty}, a shape that does not "
            "follow the batch; build the network for the batch that its file has alone, or export "
            "a model of batch 1"
        ) from error
