"""Write constant masks that tell an image's windows apart as a tensor of every image's windows.

    Before:  p = softmax(add(add(s, bias), mask)), s of (batch * windows, heads, rows, columns)
    After:   m = reshape(broadcast_to(bias + mask, (batch, windows, ...)), (batch * windows, ...))
             p = softmax(add(s, m))

Swin's shifted windows have such masks. Constants of a kernel are the same for all matrices of an
open axis; a tensor need not be. Exact: kernels add one mask of float32, the sum, either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.matrices import OPEN
from relay_int8.graph.scores import constant_mask, find_scores
from schedules.spec.text import factors

Array = np.ndarray[Any, np.dtype[Any]]


class _Mask(NamedTuple):
    """The sum of the masks of one image: ``values`` (1, windows, ...), to be ``shape``."""

    values: Array
    shape: tuple[Any, ...]


def write_window_masks(mod: IRModule) -> IRModule:
    """Return a module of an open batch with masks of windows as tensors; ``mod`` is left alone."""
    func = mod["main"]
    masks: dict[relax.Var, _Mask] = {}
    unmasked: dict[relax.Var, relax.Expr] = {}
    for var, members, mask in _masks(func):
        masks[var] = mask
        unmasked |= members
    if not masks:
        return mod
    writer = dataflow.FunctionWriter(mod, func=func)
    done: dict[relax.Var, relax.Expr] = {}
    for var, value in dataflow.calls(func):
        if var in unmasked:
            done[var] = done.get(unmasked[var], unmasked[var])
            continue
        value = dataflow.substitute(value, done)
        if var in masks:
            scores, name = value.args[0], f"{var.name}/windows"
            one = relax.const(masks[var].values, "float32")
            each = writer.derive(f"{name}/each", relax.op.broadcast_to(one, masks[var].shape))
            added = writer.derive(name, relax.op.reshape(each, dataflow.shape(scores)))
            masked = writer.derive(f"{name}/masked", relax.op.add(scores, added))
            value = dataflow.with_arguments(value, [masked])
        done[var] = writer.emit(var.name, value)
    outputs = [done[var] for var in dataflow.results(func)]
    return writer.finish(func.params, outputs, dataflow.attributes(func))


def _masks(
    func: relax.Function,
) -> Iterator[tuple[relax.Var, dict[relax.Var, relax.Expr], _Mask]]:
    """Yield each softmax of masked windows, what adds masks -> what they are added to, and all."""
    values, readers = dict(dataflow.calls(func)), dataflow.consumers(func)
    for var, value in values.items():
        if dataflow.operator(value) != "nn.softmax":
            continue
        scores = find_scores(values, value.args[0])
        if scores is None or scores.tensor is not None:
            continue
        mask = _of_windows(dataflow.shape(value), constant_mask(scores))
        if mask is not None and all(len(readers[member]) == 1 for member in scores.members):
            adders = [m for m in scores.members if dataflow.operator(values[m]) in ("add", "where")]
            yield var, {adder: _score(values[adder]) for adder in adders}, mask


def _of_windows(shape: Sequence[Any], constants: Array | None) -> _Mask | None:
    """Return the masks of one image, if they tell its windows apart."""
    if constants is None or isinstance(shape[0], int):
        return None
    windows, batch = factors(shape[0])
    if windows == 1 or len(batch) != 1:
        return None
    values = constants.reshape(OPEN, windows, *shape[1:])[:1]
    if (values == values[:, :1]).all():
        return None
    return _Mask(np.ascontiguousarray(values), (batch[0], windows, *shape[1:]))


def _score(call: relax.Call) -> relax.Var:
    """Return what a constant mask is added to, or put over."""
    return next(x for x in call.args if isinstance(x, relax.Var))
