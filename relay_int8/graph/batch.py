"""The same network for another batch, and images as one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import IRModule, relax, tirx

from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.spec import Sample2d

BATCH = "batch"
UPPER_BOUND = "tir_var_upper_bound"
"""Attribute of a function by which TVM plans memory: name of a variable -> its largest value."""
Array = np.ndarray[Any, Any]


def stacked(images: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return images, each with all inputs by name, as one batch in their order."""
    return {name: np.concatenate([image[name] for image in images]) for name in images[0]}


def batch_of(mod: IRModule) -> int:
    """Return the batch of a network: the first extent of its first input."""
    return dataflow.shape(mod["main"].params[0])[0]


def with_open_batch(mod: IRModule, most: int) -> IRModule:
    """Return a normalized module for every batch from 1 to ``most``; memory is planned for that."""
    batch = tirx.Var(BATCH, "int64")
    opened = with_batch(mod, batch)
    opened["main"] = opened["main"].with_attr(UPPER_BOUND, {BATCH: most})
    return opened


def with_batch(mod: IRModule, batch: int | tirx.Var) -> IRModule:
    """Return a normalized module with another batch; ``mod`` itself is left alone.

    Every input's first axis is the batch. Shapes are inferred again; a reshape that keeps the
    batch in front gets the new one.
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
        if dataflow.operator(value) == "reshape" and dataflow.shape(var)[:1] == (old,):
            new = relax.op.reshape(done[value.args[0]], (batch, *dataflow.shape(var)[1:]))
        elif isinstance(spec := spec_of(value), Sample2d):
            tensors, constants = operands(dataflow.substitute(value, done), spec)
            new = kernel_call(replace(spec, batch=batch), tensors, constants)
        else:
            new = dataflow.substitute(value, done)
            if isinstance(new, relax.Call):
                new = relax.Call(new.op, new.args, new.attrs)
        done[var] = writer.emit(var.name, new)
    outputs = [done[var] for var in dataflow.results(func)]
    return writer.finish(params, outputs, dataflow.attributes(func))
