"""Write the network of one image so that a batch of images can be the first axis everywhere.

    Before:  t = permute_dims(x, (2, 0, 3, 1, 4));  q = t[0:1];  y = reshape(q, (1, ...))
    After:   t = permute_dims(x, (0, 2, 3, 1, 4));  q = t[:, 0:1];  y = reshape(q, (1, ...))

Images follow each other in memory. A tensor that begins with windows has batch * windows of them,
those of the first image in front. One that a permutation lets begin with something else (3 for
queries, keys and values; tokens) has an axis of images in front, and so has what is made of it. So
queries, keys and values may be cut from one tensor, and images may lie behind tokens, though
kernels take an open extent as the first axis alone. Exact: numbers move, sums keep their order.
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
_UNARY = frozenset((
    "abs", "astype", "ceil", "clip", "cos", "erf", "exp", "floor", "isinf", "isnan", "log",
    "logical_not", "negative", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu",
    "nn.softplus", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square", "tanh",
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
    their first axis beyond doubt, ``_in_front`` those that have an axis of images in front of their
    own; ``_flat`` are these without it.
    """

    def __init__(self, mod: IRModule, axes: Mapping[relax.Var, int | None] | None) -> None:
        self._func, self._axes = mod["main"], axes
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._done: dict[relax.Var, relax.Expr] = {}
        self._in_front: set[relax.Var] = set()
        self._flat: dict[relax.Var, relax.Expr] = {}
        self._name = ""
        self._of_images = {param for param in self._func.params if shape(param)}
        self._certain = set(self._of_images) if axes is None else set()

    def applied(self) -> IRModule:
        """Return the module."""
        outputs = dataflow.results(self._func)
        for var, value in dataflow.calls(self._func):
            self._name = str(var.name)
            written = self._written(var, value)
            if var in outputs and not self._begins_with_images(var):
                raise _MixedError
            if var in outputs and var in self._in_front:
                flat = relax.op.reshape(self._step("images", written), shape(var))
                self._flat[var] = self._writer.emit(var.name, flat)
                again = relax.op.reshape(self._flat[var], (1, *shape(var)))
                self._done[var] = self._step("again", again)
                continue
            self._done[var] = self._writer.emit(var.name, written)
        results = [self._flattened(var) for var in outputs]
        return self._writer.finish(self._func.params, results, dataflow.attributes(self._func))

    def _written(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        """Return what stands for a value, and learn what is known of its images."""
        read = [each for each in dataflow.arguments(value) if each in self._of_images]
        if not read:
            return dataflow.substitute(value, self._done)
        self._of_images.add(var)
        if self._gets_images_in_front(var, value):
            self._in_front.add(var)
        rule = _RULES.get(operator(value))
        written = None if rule is None else rule(self, var, value)
        is_moved = operator(value) == "permute_dims" and written is not None
        # Behind a part of one token, or where reshapes were left out, it may be either of two.
        is_doubtful = isinstance(var.ty, relax.TensorType) and shape(var)[:2] == (1, 1)
        if not (is_moved or is_doubtful or self._certain.isdisjoint(read)):
            self._certain.add(var)
        if written is not None:
            return written
        flat = {**self._done, **{x: self._flattened(x) for x in read}}
        written = dataflow.substitute(value, flat)
        if var not in self._in_front:
            return written
        return relax.op.reshape(self._step("rows", written), (1, *shape(var)))

    def _gets_images_in_front(self, var: relax.Var, value: relax.Expr) -> bool:
        """Say whether a result is to have an axis of images in front: its first one was another."""
        if not isinstance(var.ty, relax.TensorType) or shape(var)[:1] in ((), (1,)):
            return False
        if operator(value) not in _RULES:
            return False
        if operator(value) == "permute_dims" and _axes(value)[0]:
            return True
        return not self._in_front.isdisjoint(dataflow.arguments(value))

    def _flattened(self, x: relax.Var) -> relax.Expr:
        """Return a tensor without an axis of images: they lie in its first axis."""
        if x not in self._in_front:
            return self._new(x)
        if x not in self._flat:
            flat = relax.op.reshape(self._new(x), shape(x))
            self._flat[x] = self._writer.derive(f"{x.name}/flat", flat)
        return self._flat[x]

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
        own = shape(x)
        padding = 0 if rank is None else rank - len(own)
        if x not in self._of_images or (x in self._in_front and not padding):
            return self._new(x)
        target = (1,) * (1 + padding) + own
        return self._step("image", relax.op.reshape(self._new(x), target))

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
        """Return a result, given with an axis of images in front, as it is kept."""
        if var in self._in_front:
            return value
        return relax.op.reshape(self._step("images", value), shape(var))

    def _kept(self, var: relax.Var) -> tuple[int, ...]:
        return (1, *shape(var)) if var in self._in_front else shape(var)

    def _permuted(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, axes = value.args[0], _axes(value)
        if axes[0] == 0 and x not in self._in_front:
            return None
        if shape(x)[0] == 1:
            image, order = self._new(x), [0, *(axis for axis in axes if axis)]
        else:
            image, order = self._apart(x), [0, *(axis + 1 for axis in axes)]
        if order != sorted(order):
            image = self._step("images", relax.op.permute_dims(image, order))
        return relax.op.reshape(image, self._kept(var))

    def _reshaped(self, var: relax.Var, value: relax.Call) -> relax.Expr:
        if not shape(var):
            raise _MixedError
        return relax.op.reshape(self._new(value.args[0]), self._kept(var))

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
            shape(x)[:1] == (first,) and len(shape(x)) == rank and x not in self._in_front
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
        is_whole = not begins[0] and steps[0] == 1 and shape(x)[0] == shape(var)[0]
        if is_whole and x not in self._in_front:
            return None
        axes, *bounds = ([int(item) for item in arg.fields] for arg in value.args[1:])
        places = [axis % len(begins) + 1 for axis in axes]
        image = self._apart(x) if is_whole else self._along(x)
        return self._merged(var, relax.op.strided_slice(image, places, *bounds))

    def _reduced(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, axes = value.args[0], value.attrs.axis
        places = [int(axis) % len(shape(x)) for axis in axes] if axes is not None else [0]
        if 0 not in places and x not in self._in_front:
            return None
        if not shape(var):
            raise _MixedError
        make: Callable[..., relax.Expr] = getattr(relax.op, operator(value))
        image = self._apart(x) if 0 not in places else self._along(x)
        moved = [axis + 1 for axis in places]
        return self._merged(var, make(image, moved, bool(value.attrs.keepdims)))

    def _softmax(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x = value.args[0]
        axis = int(value.attrs.axis) % len(shape(x))
        if axis and x not in self._in_front:
            return None
        image = self._apart(x) if axis else self._along(x)
        return self._merged(var, relax.op.nn.softmax(image, axis + 1))

    def _normalized(self, _var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, *factors = value.args
        axes, attrs = [int(axis) % len(shape(x)) for axis in value.attrs.axes], value.attrs
        if x not in self._in_front or 0 in axes or any(each in self._of_images for each in factors):
            return None
        image, axes = self._apart(x), [axis + 1 for axis in axes]
        factors = [self._new(each) for each in factors]
        if operator(value) == "nn.rms_norm":
            return relax.op.nn.rms_norm(image, *factors, axes, float(attrs.epsilon))
        flags = bool(attrs.center), bool(attrs.scale)
        return relax.op.nn.layer_norm(image, *factors, axes, float(attrs.epsilon), *flags)

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
        if not is_matrix and self._fits(var, [x, w]):
            return None
        if w not in self._of_images and len(shape(w)) == 2 <= len(shape(x)):
            return dataflow.with_arguments(value, [self._new(x), self._new(w)])
        if min(len(shape(x)), len(shape(w))) < 2:
            raise _MixedError
        read = [self._apart(operand, len(shape(var))) for operand in value.args]
        return self._merged(var, dataflow.with_arguments(value, read))

    def _unary(self, _var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, *others = value.args
        if x not in self._in_front or any(other in self._of_images for other in others):
            return None
        return dataflow.with_arguments(value, [self._new(x), *map(self._new, others)])

    def _paired(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        x, *parameters = value.args
        axis = int(value.attrs.axis) % len(shape(x))
        if any(each in self._of_images for each in parameters):
            raise _MixedError
        if len(shape(parameters[0])) and not axis:
            raise _MixedError
        if x not in self._in_front:
            return None
        make = relax.op.quantize if operator(value) == "quantize" else relax.op.dequantize
        parameters = [self._new(each) for each in parameters]
        return make(self._new(x), *parameters, axis + 1, str(value.attrs.out_dtype))


def _axes(value: relax.Call) -> list[int]:
    """Return the axes of a permutation, which are turned round where it names none."""
    rank = len(shape(value.args[0]))
    return [int(axis) % rank for axis in value.attrs.axes or range(rank)[::-1]]


Rule = Callable[[_Mapping, relax.Var, Any], relax.Expr | None]
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_ELEMENTWISE, _Mapping._elementwise),
    **dict.fromkeys(_REDUCTIONS, _Mapping._reduced),
    **dict.fromkeys(_UNARY, _Mapping._unary),
    "broadcast_to": _Mapping._expanded,
    "concat": _Mapping._joined,
    "dequantize": _Mapping._paired,
    "matmul": _Mapping._multiplied,
    "nn.layer_norm": _Mapping._normalized,
    "nn.rms_norm": _Mapping._normalized,
    "nn.softmax": _Mapping._softmax,
    "permute_dims": _Mapping._permuted,
    "quantize": _Mapping._paired,
    "reshape": _Mapping._reshaped,
    "strided_slice": _Mapping._sliced,
}
"""Operators that may work along the first axis or move it; None says that one does not.

Other operators stay as they are: they are refused where they would mix images.
"""
