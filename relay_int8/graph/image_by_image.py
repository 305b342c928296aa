"""Write the network of one image so that a batch of images can be its first axis everywhere.

    Before:  t = permute_dims(x, (2, 0, 3, 1, 4));  q = t[0:1];  y = reshape(q, (1, ...))
    After:   t = reshape(permute_dims(x, (0, 2, 3, 1, 4)), (3, 1, ...))
             q = reshape(reshape(t, (1, 3, 1, ...))[:, 0:1], (1, 1, ...));  y = reshape(q, (1, ...))

Images follow each other in memory: of a tensor that begins with 3, batch * 3 rows are 3 of the
first image, then 3 of the second. Where an operator works along that axis, or moves it, the image
gets an axis of its own in front for the while. So queries, keys and values may be cut from a tensor
that begins with their number, and images may lie behind tokens, though kernels take an open extent
as the first axis alone. Exact: numbers are moved, sums keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import operator, shape

_ELEMENTWISE = frozenset((
    "add", "divide", "equal", "greater", "greater_equal", "less", "less_equal", "logical_and",
    "logical_or", "maximum", "minimum", "multiply", "not_equal", "power", "subtract", "where",
))  # fmt: skip
_REDUCTIONS = frozenset(("max", "mean", "min", "sum"))


class _MixedError(Exception):
    """An operator works along the axis in which images certainly lie, or has no rule."""


def image_by_image(mod: IRModule, axes: Mapping[relax.Var, int | None] | None) -> IRModule | None:
    """Return a module of batch 1 whose batch can be its first axis, or None if that cannot be.

    Parameters
    ----------
    axes
        Axis of each tensor that holds the batch, None if it has none; None if they are not known.
        What works along an axis is refused then where images certainly lie in it.
    """
    try:
        return _Mapping(mod, axes).applied()
    except _MixedError:
        return None


class _Mapping:
    """Rewrites one function.

    ``_of_images`` are tensors that depend on an image, ``_certain`` those that hold the batch in
    their first axis beyond doubt.
    """

    def __init__(self, mod: IRModule, axes: Mapping[relax.Var, int | None] | None) -> None:
        self._func, self._axes = mod["main"], axes
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._done: dict[relax.Var, relax.Expr] = {}
        self._name = ""
        self._of_images = {param for param in self._func.params if shape(param)}
        self._certain = set(self._of_images) if axes is None else set()

    def applied(self) -> IRModule:
        """Return the module."""
        outputs = dataflow.results(self._func)
        for var, value in dataflow.calls(self._func):
            self._name = str(var.name)
            self._done[var] = self._writer.emit(var.name, self._written(var, value))
            if var in outputs and not self._begins_with_images(var):
                raise _MixedError
        results = [self._done[var] for var in outputs]
        return self._writer.finish(self._func.params, results, dataflow.attributes(self._func))

    def _written(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return what stands for a value, and learn what is known of its images."""
        read = [each for each in dataflow.arguments(value) if each in self._of_images]
        if not read:
            return dataflow.substitute(value, self._done)
        self._of_images.add(var)
        rule = _RULES.get(operator(value))
        written = None if rule is None else rule(self, var, value)
        is_moved = operator(value) == "permute_dims" and written is not None
        # Behind a part of one token, or where reshapes were left out, it may be either of two.
        is_doubtful = isinstance(var.ty, relax.TensorType) and shape(var)[:2] == (1, 1)
        if not (is_moved or is_doubtful or self._certain.isdisjoint(read)):
            self._certain.add(var)
        return dataflow.substitute(value, self._done) if written is None else written

    def _begins_with_images(self, var: relax.Var) -> bool:
        """Say whether the batch is to be the first axis of a result of the network, if it is in."""
        if self._axes is not None:
            return not self._axes[var]
        return var not in self._of_images or var in self._certain or shape(var)[:1] == (1,)

    def _step(self, name: str, value: relax.Expr) -> relax.Var:
        return self._writer.derive(f"{self._name}/{name}", value)

    def _new(self, x: relax.Expr) -> relax.Expr:
        return self._done.get(x, x) if isinstance(x, relax.Var) else x

    def _apart(self, x: relax.Expr, rank: int | None = None) -> relax.Expr:
        """Return an operand with an axis of images in front, if it has images.

        ``rank``: of what it is broadcast to, without that axis.
        """
        if x not in self._of_images:
            return self._new(x)
        own = shape(x)
        ahead = (1,) * (1 + (0 if rank is None else rank - len(own)))
        return self._step("image", relax.op.reshape(self._new(x), (*ahead, *own)))

    def _for_each(self, x: relax.Expr) -> relax.Expr:
        """Return what all images have in common, with an axis of one in front."""
        array = dataflow.constant(x)
        if array is not None:
            return relax.const(array[None], str(array.dtype))
        return self._step("image", relax.op.reshape(self._new(x), (1, *shape(x))))

    def _along(self, x: relax.Expr) -> relax.Expr:
        """Return :meth:`_apart` for an operator that works along the first axis."""
        if x in self._certain:
            raise _MixedError
        return self._apart(x)

    def _merged(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return a result with its images in its first axis again."""
        return relax.op.reshape(self._step("images", value), shape(var))

    def _permuted(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, rank = value.args[0], len(shape(var))
        axes = [int(axis) for axis in value.attrs.axes or range(rank)[::-1]]
        if axes[0] == 0:
            return None
        if shape(x)[0] == 1:
            image, order = self._new(x), [0, *(axis for axis in axes if axis)]
        else:
            image, order = self._apart(x), [0, *(axis + 1 for axis in axes)]
        if order == sorted(order):
            return relax.op.reshape(image, shape(var))
        return self._merged(var, relax.op.permute_dims(image, order))

    def _reshaped(self, var: relax.Var, value: relax.Call) -> relax.Expr:
        if not shape(var):
            raise _MixedError
        return relax.op.reshape(self._new(value.args[0]), shape(var))

    def _elementwise(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        """Broadcast images to images, and what all have in common to each of them."""
        tensors = [x for x in value.args if isinstance(x.ty, relax.TensorType)]
        if self._fits(var, tensors):
            return None
        rank = len(shape(var))
        read = [self._apart(x, rank) if x in tensors else x for x in value.args]
        return self._merged(var, dataflow.with_arguments(value, read))

    def _fits(self, var: relax.Var, tensors: list[relax.Expr]) -> bool:
        """Say whether operands may be broadcast to ``var`` with images in the first axis."""
        first, rank = shape(var)[0], len(shape(var))
        return all(
            shape(x)[:1] == (first,) and len(shape(x)) == rank
            if x in self._of_images
            else len(shape(x)) < rank or shape(x)[0] == 1
            for x in tensors
        )

    def _expanded(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x = value.args[0]
        if self._fits(var, [x]):
            return None
        image = self._apart(x, len(shape(var)))
        return self._merged(var, relax.op.broadcast_to(image, (1, *shape(var))))

    def _sliced(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x = value.args[0]
        begins, steps = dataflow.slice_steps(value)
        if not begins[0] and steps[0] == 1 and shape(x)[0] == shape(var)[0]:
            return None
        axes, *bounds = ([int(item) for item in arg.fields] for arg in value.args[1:])
        places = [axis % len(begins) + 1 for axis in axes]
        return self._merged(var, relax.op.strided_slice(self._along(x), places, *bounds))

    def _reduced(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, axes = value.args[0], value.attrs.axis
        places = [int(axis) % len(shape(x)) for axis in axes] if axes is not None else [0]
        if 0 not in places:
            return None
        if not shape(var):
            raise _MixedError
        make: Callable[..., relax.Expr] = getattr(relax.op, operator(value))
        image, moved = self._along(x), [axis + 1 for axis in places]
        return self._merged(var, make(image, moved, bool(value.attrs.keepdims)))

    def _softmax(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x = value.args[0]
        if int(value.attrs.axis) % len(shape(x)):
            return None
        return self._merged(var, relax.op.nn.softmax(self._along(x), 1))

    def _joined(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        fields, axis = value.args[0].fields[:], int(value.attrs.axis or 0) % len(shape(var))
        if axis and self._fits(var, fields):
            return None
        if any(x in self._certain for x in fields) and not axis:
            raise _MixedError
        parts = [self._apart(x) if x in self._of_images else self._for_each(x) for x in fields]
        return self._merged(var, relax.op.concat(parts, axis + 1))

    def _multiplied(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        """Return a product of matrices; the first axis is one of several, or of rows."""
        x, w = value.args
        is_matrix = len(shape(x)) == 2 or len(shape(w)) == 2
        rows_alone = w not in self._of_images and len(shape(w)) == 2 <= len(shape(x))
        if rows_alone or (not is_matrix and self._fits(var, [x, w])):
            return None
        if min(len(shape(x)), len(shape(w))) < 2:
            raise _MixedError
        read = [self._apart(operand, len(shape(var))) for operand in value.args]
        return self._merged(var, dataflow.with_arguments(value, read))

    def _paired(self, _var: relax.Var, value: relax.Call) -> None:
        rank = len(shape(value.args[0]))
        if len(shape(value.args[1])) and int(value.attrs.axis) % rank == 0:
            raise _MixedError


Rule = Callable[[_Mapping, relax.Var, Any], relax.Expr | None]
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _Mapping._elementwise),
    **dict.fromkeys(_REDUCTIONS, _Mapping._reduced),
    "broadcast_to": _Mapping._expanded,
    "concat": _Mapping._joined,
    "dequantize": _Mapping._paired,
    "matmul": _Mapping._multiplied,
    "nn.softmax": _Mapping._softmax,
    "permute_dims": _Mapping._permuted,
    "quantize": _Mapping._paired,
    "reshape": _Mapping._reshaped,
    "strided_slice": _Mapping._sliced,
}
"""Operators that may work along the first axis or move it; None says that one does not.

Other operators stay as they are: they are refused where they would mix images.
"""
