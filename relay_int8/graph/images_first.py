"""Turn tensors of which another axis than the first holds the batch: kernels need it there.

    Before:  t = permute_dims(x, (2, 0, 3, 1, 4));  q = t[0:1];  y = reshape(q, (batch, ...))
    After:   q = x[:, :, 0:1];  t = permute_dims(q, (0, 2, 3, 1, 4));  y = reshape(t, (batch, ...))

Queries, keys and values are often cut from a tensor that begins with their number, and PyTorch's
transformers may have images behind tokens. Operators that treat all axes alike read and give
turned tensors: the batch first, the other axes in their order. In front of any other operator a
tensor is permuted to what it was. Exact: numbers are moved, sums keep their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import operator, shape

_UNARY = frozenset((
    "abs", "astype", "ceil", "clip", "cos", "erf", "exp", "floor", "isinf", "isnan", "log",
    "logical_not", "negative", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu",
    "nn.softplus", "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "square", "tanh",
))  # fmt: skip
_BROADCAST = frozenset((
    "add", "divide", "equal", "greater", "greater_equal", "less", "less_equal", "logical_and",
    "logical_or", "maximum", "minimum", "multiply", "not_equal", "power", "subtract", "where",
))  # fmt: skip
_REDUCTIONS = frozenset(("max", "mean", "min", "sum"))


def images_first(mod: IRModule, axes: Mapping[relax.Var, int | None], batch: int) -> IRModule:
    """Return ``mod`` with the batch first wherever that can be; ``mod`` itself is left alone.

    Parameters
    ----------
    axes
        Axis of each tensor that holds the batch, None if it has none.
    batch
        How many images the module takes.
    """
    if not any(axes.values()):
        return mod
    return _Turning(mod, axes, batch).applied()


class _Turning:
    """Rewrites one function.

    ``_done``: variable of the old function -> the same tensor; ``_turned``: -> its turned form.
    Of a tensor whose batch comes first these are one; of another one each is written when it is
    read.
    """

    def __init__(self, mod: IRModule, axes: Mapping[relax.Var, int | None], batch: int) -> None:
        self._func, self._axes, self._batch = mod["main"], axes, batch
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._done: dict[relax.Var, relax.Expr] = {param: param for param in self._func.params}
        self._turned: dict[relax.Var, relax.Expr] = {}

    def applied(self) -> IRModule:
        """Return the module."""
        outputs = dataflow.results(self._func)
        for var, value in dataflow.calls(self._func):
            turned = self._of_turned(var, value)
            if turned is None:
                old = {arg: self._plain(arg) for arg in _variables(value)}
                self._done[var] = self._writer.emit(var.name, dataflow.substitute(value, old))
            elif self._axes[var]:
                is_output = var in outputs
                emit = self._writer.derive if is_output else self._writer.emit
                name = f"{var.name}/turned" if is_output else var.name
                self._turned[var] = emit(name, turned)
                if is_output:
                    self._done[var] = self._writer.emit(var.name, self._turned_back(var))
            else:
                self._done[var] = self._writer.emit(var.name, turned)
        results = [self._done[var] for var in outputs]
        return self._writer.finish(self._func.params, results, dataflow.attributes(self._func))

    def _of_turned(self, var: relax.Var, value: relax.Expr) -> relax.Expr | None:
        """Return a value, turned, made of turned operands; None if it reads the old ones."""
        if not any(self._axes[tensor] for tensor in (var, *_variables(value))):
            return None
        name = operator(value)
        if name in _BROADCAST or name in _UNARY:
            return self._elementwise(var, value)
        rule = _RULES.get(name)
        return None if rule is None else rule(self, var, value)

    def _plain(self, var: relax.Var) -> relax.Expr:
        if var not in self._done:
            self._done[var] = self._writer.derive(f"{var.name}/ordered", self._turned_back(var))
        return self._done[var]

    def _turned_back(self, var: relax.Var) -> relax.Call:
        order = self._places(var, range(len(shape(var))))
        return relax.op.permute_dims(self._turned[var], order)

    def _first(self, var: relax.Expr) -> relax.Expr:
        """Return the turned form of a tensor that has a batch."""
        axis = self._axes[var]
        if not axis:
            return self._done[var]
        if var not in self._turned:
            order = _order(len(shape(var)), axis)
            turned = relax.op.permute_dims(self._done[var], order)
            self._turned[var] = self._writer.derive(f"{var.name}/turned", turned)
        return self._turned[var]

    def _axis(self, value: relax.Expr) -> int | None:
        return self._axes[value] if isinstance(value, relax.Var) else None

    def _elementwise(self, var: relax.Var, value: relax.Call) -> relax.Call | None:
        """Return the operator on turned operands, which broadcast as they did."""
        read = [self._broadcast(var, argument) for argument in value.args]
        if any(argument is None for argument in read):
            return None
        return dataflow.with_arguments(value, read)

    def _broadcast(self, var: relax.Var, x: relax.Expr) -> relax.Expr | None:
        """Return what stands for the operand ``x`` of ``var`` in the turned operator."""
        axis, rank = self._axes[var], len(shape(var))
        if not isinstance(x.ty, relax.TensorType):
            return x  # a number
        own = shape(x)
        if (own_axis := self._axis(x)) is not None:
            return self._first(x) if len(own) == rank and own_axis == axis else None
        if axis is None:
            return None
        tensor = self._plain(x) if isinstance(x, relax.Var) else x
        if rank - len(own) > axis:
            return tensor  # its axes are all behind that of the batch
        padded, order = (1,) * (rank - len(own)) + own, _order(rank, axis)
        if (array := dataflow.constant(x)) is not None:
            moved = np.ascontiguousarray(array.reshape(padded).transpose(order))
            return relax.const(moved, str(array.dtype))
        whole = relax.op.reshape(tensor, padded)
        if len(own) < rank:
            whole = self._writer.derive(f"{x.name}/padded", whole)
        return self._writer.derive(f"{x.name}/turned", relax.op.permute_dims(whole, order))

    def _permuted(self, var: relax.Var, value: relax.Call) -> relax.Expr:
        x, rank = value.args[0], len(shape(var))
        axes = [int(axis) for axis in value.attrs.axes or range(rank)[::-1]]
        order = self._places(x, [axes[axis] for axis in _order(rank, self._axes[var] or 0)])
        first = self._first(x)
        return first if order == sorted(order) else relax.op.permute_dims(first, order)

    def _reshaped(self, var: relax.Var, value: relax.Call) -> relax.Expr | None:
        """Return a reshape; numbers that enter or leave the batch's axis pass those before it."""
        x, before, after = value.args[0], shape(value.args[0]), shape(var)
        axis_x, axis_y = self._axes[x] or 0, self._axes[var] or 0
        ahead, outer_x, outer_y = math.prod(before[:axis_x]), before[axis_x], after[axis_y]
        target = tuple(after[axis] for axis in _order(len(after), axis_y))
        first = self._first(x)
        if outer_x == outer_y or ahead == 1:
            return relax.op.reshape(first, target)
        if outer_y % outer_x == 0:
            cut = (outer_x, ahead, outer_y // outer_x, -1)
        elif outer_x % outer_y == 0:
            cut = (outer_y, outer_x // outer_y, ahead, -1)
        else:
            return None
        behind = math.prod(before) // math.prod(cut[:3])
        parts = self._writer.derive(f"{var.name}/cut", relax.op.reshape(first, (*cut[:3], behind)))
        moved = relax.op.permute_dims(parts, (0, 2, 1, 3))
        return relax.op.reshape(self._writer.derive(f"{var.name}/moved", moved), target)

    def _sliced(self, _var: relax.Var, value: relax.Call) -> relax.Call:
        axes, *bounds = ([int(item) for item in arg.fields] for arg in value.args[1:])
        x = value.args[0]
        return relax.op.strided_slice(self._first(x), self._places(x, axes), *bounds)

    def _paired(self, _var: relax.Var, value: relax.Call) -> relax.Call:
        make = relax.op.quantize if operator(value) == "quantize" else relax.op.dequantize
        x, *parameters = value.args
        (axis,) = self._places(x, [int(value.attrs.axis)])
        return make(self._first(x), *parameters, axis, str(value.attrs.out_dtype))

    def _reduced(self, _var: relax.Var, value: relax.Call) -> relax.Call | None:
        x, axes = value.args[0], value.attrs.axis
        if axes is None:
            return None
        make = getattr(relax.op, operator(value))
        return make(self._first(x), self._places(x, axes), bool(value.attrs.keepdims))

    def _softmax(self, _var: relax.Var, value: relax.Call) -> relax.Call:
        x = value.args[0]
        (axis,) = self._places(x, [int(value.attrs.axis)])
        return relax.op.nn.softmax(self._first(x), axis)

    def _normalized(self, _var: relax.Var, value: relax.Call) -> relax.Call | None:
        x, *factors = value.args
        if any(self._axis(factor) is not None for factor in factors):
            return None
        factors = [self._plain(f) if isinstance(f, relax.Var) else f for f in factors]
        axes, attrs = self._places(x, value.attrs.axes), value.attrs
        if operator(value) == "nn.rms_norm":
            return relax.op.nn.rms_norm(self._first(x), *factors, axes, float(attrs.epsilon))
        flags = bool(attrs.center), bool(attrs.scale)
        return relax.op.nn.layer_norm(self._first(x), *factors, axes, float(attrs.epsilon), *flags)

    def _multiplied(self, var: relax.Var, value: relax.Call) -> relax.Call | None:
        """Return a product of matrices, of which the batch is no axis but for rows of tokens."""
        x, w = value.args
        axis, rank = self._axes[var], len(shape(var))
        if self._axis(x) != axis or axis is None or len(shape(x)) != rank or axis == rank - 1:
            return None
        if self._axis(w) == axis and len(shape(w)) == rank and axis < rank - 2:
            return dataflow.with_arguments(value, [self._first(x), self._first(w)])
        if self._axis(w) is None and len(shape(w)) == 2:
            weights = self._plain(w) if isinstance(w, relax.Var) else w
            return dataflow.with_arguments(value, [self._first(x), weights])
        return None

    def _joined(self, var: relax.Var, value: relax.Call) -> relax.Call | None:
        axis, rank = self._axes[var], len(shape(var))
        fields = [self._broadcast(var, field) for field in value.args[0].fields]
        if axis is None or any(field is None for field in fields):
            return None
        return relax.op.concat(fields, _place(int(value.attrs.axis or 0) % rank, axis))

    def _places(self, x: relax.Expr, axes: Sequence[int]) -> list[int]:
        rank = len(shape(x))
        return [_place(int(axis) % rank, self._axes[x] or 0) for axis in axes]


def _variables(value: relax.Expr) -> list[relax.Var]:
    return [each for each in dataflow.arguments(value) if isinstance(each, relax.Var)]


def _order(rank: int, axis: int) -> list[int]:
    """Return the axes of a tensor in the order of its turned form."""
    return [axis, *(other for other in range(rank) if other != axis)]


def _place(axis: int, batch_axis: int) -> int:
    """Return where an axis lies in the turned form."""
    if axis == batch_axis:
        return 0
    return axis + 1 if axis < batch_axis else axis


_RULES: dict[str, Callable[[_Turning, relax.Var, relax.Call], relax.Expr | None]] = {
    "concat": _Turning._joined,
    "dequantize": _Turning._paired,
    "matmul": _Turning._multiplied,
    "nn.layer_norm": _Turning._normalized,
    "nn.rms_norm": _Turning._normalized,
    "nn.softmax": _Turning._softmax,
    "permute_dims": _Turning._permuted,
    "quantize": _Turning._paired,
    "reshape": _Turning._reshaped,
    "strided_slice": _Turning._sliced,
    **dict.fromkeys(_REDUCTIONS, _Turning._reduced),
}
