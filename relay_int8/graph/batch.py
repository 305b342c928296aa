"""The same network for another batch, and images as one batch.

Every input begins with the batch. From there it is followed: reshapes fold it into an axis with
heads or windows ([batch, tokens, heads * depth] to [batch * heads, tokens, depth]), permutations
carry it to another place. Images stay in order and apart: in its axis the batch steps slowest, and
what would mix images, or take one of them out, is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import IRModule, relax, tirx

from relay_int8.errors import ConfigError, UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.batch_axes import axis_holding, keeps_images_apart
from relay_int8.graph.image_by_image import image_by_image
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from relay_int8.graph.window_masks import write_window_masks
from schedules.spec import Recurrence, Sample2d, Suppression
from schedules.spec.operator_spec import static_size
from schedules.spec.text import factors

BATCH = "batch"
UPPER_BOUND = "tir_var_upper_bound"
"""Attribute of a function by which TVM plans memory: name of a variable -> its largest value."""
CAPTURED = "relax.rewrite_cuda_graph.capture_symbolic_vars"
"""Attribute of a function: the variables by whose values TVM tells CUDA graphs of it apart."""
UNLIKELY = 7919
"""A batch that is a factor of no shape: what follows it follows every batch."""
Array = np.ndarray[Any, Any]
Batch = int | tirx.Var


def stacked(images: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """Return images, each with all inputs by name, as one batch in their order."""
    return {name: np.concatenate([image[name] for image in images]) for name in images[0]}


def batch_of(mod: IRModule) -> int:
    """Return the batch of a network: the first extent of its first input that has axes."""
    shapes = (dataflow.shape(param) for param in mod["main"].params)
    return next((shape[0] for shape in shapes if shape), 1)


def has_batch(mod: IRModule) -> bool:
    """Say whether every input of a normalized module begins with one batch, whose images are apart.

    A recurrent layer may have its steps there, a graph its nodes, a list of sizes two numbers: such
    a network is computed as a whole.
    """
    if not _begin_alike(mod):
        return False
    try:
        with_batch(mod, 1)
    except UnsupportedOpError:
        return False
    return True


def of_one_image(mod: IRModule) -> IRModule:
    """Return a normalized module of batch 1; one without a batch is returned as it is."""
    return with_batch(mod, 1) if has_batch(mod) else mod


def _begin_alike(mod: IRModule) -> bool:
    return len({dataflow.shape(param)[:1] for param in mod["main"].params} | {()}) <= 2


def with_open_batch(mod: IRModule, most: int) -> IRModule:
    """Return a normalized module for every batch from 1 to ``most``; memory is planned for that.

    Raises
    ------
    UnsupportedOpError
        If an operator fixes the batch.
    """
    one = _to_open(with_batch(mod, 1))
    opened = write_window_masks(with_batch(one, tirx.Var(BATCH, "int64")))
    opened["main"] = opened["main"].with_attr({UPPER_BOUND: {BATCH: most}, CAPTURED: [BATCH]})
    return opened


def _to_open(mod: IRModule) -> IRModule:
    """Return a module of batch 1 that can be opened, with its batch first if it can be."""
    change, refusal = _change(mod, UNLIKELY), None
    # Of an open batch TVM believes any shape; of a number it does not.
    try:
        change.applied()
    except UnsupportedOpError as error:
        refusal = error
    if refusal is None and not any(change.axes.values()):
        return mod
    apart = image_by_image(mod, change.axes if refusal is None else None)
    try:
        if apart is not None:
            with_batch(apart, UNLIKELY)
            return apart
    except UnsupportedOpError:
        pass  # an operator without a rule, as a recurrent layer with steps first
    if refusal is not None:
        raise refusal
    return mod


def with_batch(mod: IRModule, batch: Batch) -> IRModule:
    """Return a normalized module with another batch; ``mod`` itself is left alone.

    Every input's first axis is the batch. Shapes are inferred again; reshapes get the new batch
    where they had the old one, and so do constants that are joined to images.

    Raises
    ------
    ConfigError
        If a constant that is joined to images differs from image to image.
    UnsupportedOpError
        If an operator fixes the batch, mixes images, or tells them apart; if inputs begin with
        different extents.
    """
    if isinstance(batch, int) and _begin_alike(mod) and batch_of(mod) == batch:
        return mod
    return _change(mod, batch).applied()


def _change(mod: IRModule, batch: Batch) -> _Change:
    """Return what rewrites a module for another batch."""
    if not _begin_alike(mod):
        begins = {str(param.name): list(dataflow.shape(param)) for param in mod["main"].params}
        raise UnsupportedOpError(
            f"the inputs have no batch in common: {begins}; what works image by image (all tools "
            "but calibration, another batch) needs one as the first axis of each"
        )
    return _Change(mod["main"], batch_of(mod), batch)


class _Change:
    """Rewrites one function for another batch.

    ``axes``: variable of the old function -> the axis that holds its batch, None without one.
    """

    def __init__(self, func: relax.Function, old: int, batch: Batch) -> None:
        self._func, self._old, self._batch = func, old, batch
        self._writer = dataflow.FunctionWriter()
        self.axes: dict[relax.Var, int | None] = {
            param: 0 if dataflow.shape(param) else None for param in func.params
        }
        self._done: dict[relax.Var, relax.Expr] = {}

    def applied(self) -> IRModule:
        """Return the module."""
        params = [
            relax.Var(
                param.name,
                relax.TensorType(self._batched(dataflow.shape(param)), dataflow.dtype(param)),
            )
            for param in self._func.params
        ]
        self._done.update(zip(self._func.params, params, strict=True))
        for var, value in dataflow.calls(self._func):
            self._done[var] = self._emitted(var, self._changed(var, value))
            self.axes[var] = self._axis_of(var, value)
        outputs = [self._done[var] for var in dataflow.results(self._func)]
        return self._writer.finish(params, outputs, dataflow.attributes(self._func))

    def _batched(self, shape: tuple[int, ...]) -> tuple[Batch, ...]:
        return (self._batch, *shape[1:]) if shape else ()

    def _changed(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return what takes the place of ``value``: the same of a new batch."""
        operator = dataflow.operator(value)
        new = dataflow.substitute(value, self._done)
        if operator in _SHAPED:
            return _SHAPED[operator](new.args[0], self._target(var, value))
        if operator == "concat":
            return self._concat(var, value)
        if operator == "image.grid_sample" and self._axis(value.args[1]) is None:
            new = dataflow.with_arguments(new, [new.args[0], self._grid(var, value)])
        if isinstance(spec := spec_of(value), Sample2d | Recurrence | Suppression):
            tensors, constants = operands(new, spec)
            return kernel_call(self._of_batch(var, value, spec), tensors, constants)
        # A new node of the same call: of the old one TVM knows the type, that of the old batch.
        return relax.Call(new.op, new.args, new.attrs) if isinstance(new, relax.Call) else new

    def _of_batch(
        self, var: relax.Var, value: relax.Call, spec: Sample2d | Recurrence | Suppression
    ) -> Sample2d | Recurrence | Suppression:
        """Return a spec of the new batch; refuse a recurrent layer that has images for steps."""
        if isinstance(spec, Sample2d | Suppression):
            return replace(spec, batch=self._batch)
        tensors, _ = operands(value, spec)
        axis, *of_states = (self._axis(tensor) for tensor in tensors)
        if axis is None and not any(of_state is not None for of_state in of_states):
            return spec
        sequences = static_size(spec.batch)
        is_apart = axis == 1 - spec.time and all(of_state == 0 for of_state in of_states)
        if not is_apart or sequences % self._old:
            raise self._refusal(var, value)
        return replace(spec, batch=self._times(sequences // self._old))

    def _target(self, var: relax.Var, value: relax.Call) -> tuple[Any, ...]:
        """Return the shape that a reshape or an expansion gives, for the new batch."""
        before, after = dataflow.shape(value.args[0]), list(dataflow.shape(var))
        axis = self._axis(value.args[0])
        if axis is None:
            axis_of_batch = 0 if self._old > 1 and after[:1] == [self._old] else None
        elif dataflow.operator(value) == "broadcast_to":
            axis_of_batch = axis + len(after) - len(before)
        else:
            axis_of_batch = axis_holding(math.prod(before[:axis]), after, self._old)
        if axis_of_batch is not None:
            after[axis_of_batch] = self._times(after[axis_of_batch] // self._old)
        return tuple(after)

    def _concat(self, var: relax.Var, value: relax.Call) -> relax.Call:
        """Return a concat whose constant parts are there once for every image."""
        fields = list(value.args[0].fields)
        axis = next((a for a in map(self._axis, fields) if a is not None), None)
        parts = [dataflow.substitute(field, self._done) for field in fields]
        if axis is not None:
            parts = [
                self._repeated(str(var.name), part, axis) if self._axis(field) is None else part
                for field, part in zip(fields, parts, strict=True)
            ]
        return relax.op.concat(parts, int(value.attrs.axis or 0))

    def _grid(self, var: relax.Var, value: relax.Call) -> relax.Expr:
        """Return a constant grid once for every image: TVM reads the batch of the images alone."""
        x, grid = value.args[0], dataflow.constant(value.args[1])
        if self._axis(x) is None:
            return dataflow.substitute(value, self._done).args[1]
        if grid is None or len(grid) % self._old:
            raise self._refusal(var, value)
        by_image = grid.reshape(self._old, -1, *grid.shape[1:])
        if (by_image != by_image[:1]).any():
            raise UnsupportedOpError(
                f"{var.name} samples images at constant coordinates that differ from image to "
                "image; import the model with the batch that is wanted"
            )
        one = relax.const(np.ascontiguousarray(by_image[:1]), str(grid.dtype))
        shape = (self._batch, *by_image.shape[1:])
        grids = self._writer.emit(f"{var.name}/grids", relax.op.broadcast_to(one, shape))
        joined = (self._times(by_image.shape[1]), *grid.shape[1:])
        return self._writer.emit(f"{var.name}/grid", relax.op.reshape(grids, joined))

    def _repeated(self, name: str, part: relax.Expr, axis: int) -> relax.Expr:
        """Return ``part``, the same for all images, once for every image of the batch."""
        shape = dataflow.shape(part)
        array = dataflow.constant(part)
        if array is not None and axis == 0:
            if (array != array[:1]).any():
                raise ConfigError(
                    f"{name} joins images to a constant that differs from image to image; import "
                    "the model with the batch that is wanted"
                )
            part, shape = relax.const(array[:1], str(array.dtype)), (1, *array.shape[1:])
        if shape[axis] != 1 or (isinstance(self._batch, int) and self._batch == 1):
            return part
        extents = [self._batch if i == axis else extent for i, extent in enumerate(shape)]
        return self._writer.emit(f"{name}/constant", relax.op.broadcast_to(part, extents))

    def _emitted(self, var: relax.Var, value: relax.Expr) -> relax.Var:
        try:
            return self._writer.emit(var.name, value)
        except Exception as error:  # TVM's inference raises ValueError, TypeError and its own
            raise self._refusal(var, value) from error

    def _refusal(self, var: relax.Var, value: relax.Expr) -> UnsupportedOpError:
        return UnsupportedOpError(
            f"{var.name} ({dataflow.operator(value)}) gives {var.ty}, a shape that does not "
            "follow the batch; build the network for the batch that its file has alone, or export "
            "a model of batch 1"
        )

    def _axis_of(self, var: relax.Var, value: relax.Expr) -> int | None:
        """Return the axis that holds the batch of a result, None if no batch goes into it.

        Raises
        ------
        UnsupportedOpError
            If images are mixed, or do not all come out.
        """
        read = [arg for arg in dataflow.arguments(value) if isinstance(arg, relax.Var)]
        axes = {axis for arg in read if (axis := self._axis(arg)) is not None}
        if not axes:
            return None
        axis, first = self._batch_axis(var), self._axis(dataflow.arguments(value)[0])
        others = axes != {0} or axis != 0
        if axis is None or not keeps_images_apart(value, first, others):
            raise self._refusal(var, value)
        return axis

    def _batch_axis(self, var: relax.Var) -> int | None:
        """Return the one axis whose extent has followed the batch, or None."""
        axes = set()
        for old, new in zip(_shapes(var), _shapes(self._done[var]), strict=True):
            pairs = list(zip(old, new, strict=True))
            changed = [i for i, (a, b) in enumerate(pairs) if not isinstance(b, int) or a != b]
            if len(changed) != 1 or not self._follows(*pairs[changed[0]]):
                return None
            axes.update(changed)
        return axes.pop() if len(axes) == 1 else None

    def _follows(self, before: int, after: Any) -> bool:
        """Say whether an extent holds as many times the batch as it did."""
        if isinstance(after, int):
            return isinstance(self._batch, int) and after * self._old == before * self._batch
        factor, variables = factors(after)
        return len(variables) == 1 and factor * self._old == before

    def _axis(self, value: relax.Expr) -> int | None:
        return self.axes.get(value) if isinstance(value, relax.Var) else None

    def _times(self, factor: int) -> Any:
        """Return a number of images' worth of ``factor``."""
        return self._batch if factor == 1 else self._batch * factor


def _shapes(value: relax.Expr) -> list[tuple[Any, ...]]:
    """Return the shapes of a tensor, or of a tuple's fields."""
    types = value.ty.fields if isinstance(value.ty, relax.TupleType) else [value.ty]
    return [
        tuple(int(e) if isinstance(e, int | tirx.IntImm) else e for e in one.shape) for one in types
    ]


_SHAPED: dict[str, Callable[..., relax.Expr]] = {
    "reshape": relax.op.reshape,
    "broadcast_to": relax.op.broadcast_to,
}
