"""MXNet operators that compute element by element, and reductions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import dtype, shape

Unary = Callable[[relax.Expr], relax.Expr]
Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def _unary(op: Unary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        (x,) = step.operands("data")
        return op(x)

    return _convert


def _identity(step: MxnetStep) -> relax.Expr:
    return step.x


def _elementwise(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        a, b = step.operands("lhs", "rhs")
        if shape(a) != shape(b):
            raise ValueError(f"its inputs are {list(shape(a))} and {list(shape(b))}, not alike")
        return op(a, b)

    return _convert


def _broadcast(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        a, b = step.operands("lhs", "rhs")
        return op(a, b)

    return _convert


def _scalar(op: Binary, *, reverse: bool = False) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        (x,) = step.operands("data")
        k = step.number(step.attributes.real("scalar", 0.0))
        return op(k, x) if reverse else op(x, k)

    return _convert


def _sum_of_all(step: MxnetStep) -> relax.Expr:
    total = step.x
    for other in step.inputs[1:-1]:
        total = step.emit("add", relax.op.add(total, other))
    return relax.op.add(total, step.inputs[-1]) if len(step.inputs) > 1 else total


def _reduction(op: Callable[..., relax.Expr]) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        attrs, rank = step.attributes, len(shape(step.x))
        given = [axis_of(axis or 0, rank) for axis in attrs.integers("axis")]
        if attrs.flag("exclude", False):
            given = [axis for axis in range(rank) if axis not in given]
        axes = given or list(range(rank))
        y = op(step.x, axes, keepdims=attrs.flag("keepdims", False))
        return y

    return _convert


def _norm(step: MxnetStep) -> relax.Expr:
    """Return norms of the first or the second order, along axes or of the whole tensor."""
    attrs, rank = step.attributes, len(shape(step.x))
    order, kept = attrs.integer("ord", 2), attrs.flag("keepdims", False)
    axes = [axis_of(axis or 0, rank) for axis in attrs.integers("axis")] or list(range(rank))
    if order not in (1, 2):
        raise NotImplementedError(f"a norm of order {order}")
    sizes = step.emit("sizes", (relax.op.abs if order == 1 else relax.op.square)(step.x))
    total = relax.op.sum(sizes, axes, keepdims=kept)
    return total if order == 1 else relax.op.sqrt(step.emit("sum", total))


def _of_numbers(op: Callable[..., relax.Expr], neutral: float) -> Converter:
    """Reduce, a NaN being no element."""

    def _convert(step: MxnetStep) -> relax.Expr:
        is_nan = step.emit("is_nan", relax.op.isnan(step.x))
        numbers = step.emit("numbers", relax.op.where(is_nan, step.number(neutral), step.x))
        y = _reduction(op)(replace(step, inputs=[numbers]))
        assert isinstance(y, relax.Expr)
        return y

    return _convert


def _cast(step: MxnetStep) -> relax.Expr:
    """Change the type; half and double precision are computed as float32."""
    kind = step.attributes.text("dtype")
    types = {"float16": "float32", "float64": "float32"}
    known = ("float32", "int8", "uint8", "int32", "int64", *types)
    if kind not in known:
        raise NotImplementedError(f"a cast to {kind}; there are {', '.join(known)}")
    return relax.op.astype(step.x, types.get(kind, kind))


def _dot(step: MxnetStep) -> relax.Expr:
    """Multiply two matrices, each transposed first if its attribute says so."""
    operands = []
    for name, x in zip(("a", "b"), step.operands("lhs", "rhs"), strict=True):
        rank = len(shape(x))
        if rank not in (2, 3):
            raise NotImplementedError(f"products of arrays with {rank} axes")
        if step.attributes.flag(f"transpose_{name}", False):
            order = [*range(rank - 2), rank - 1, rank - 2]
            x = step.emit(f"transpose_{name}", relax.op.permute_dims(x, order))
        operands.append(x)
    return relax.op.matmul(*operands)


def _reciprocal(step: MxnetStep) -> relax.Expr:
    return relax.op.divide(step.number(1.0), step.x)


def _filled(op: Callable[..., relax.Expr]) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        return op(shape(step.x), dtype(step.x))

    return _convert


_UNARY: dict[str, Unary] = {
    "LogisticRegressionOutput": relax.op.sigmoid,
    "abs": relax.op.abs,
    "ceil": relax.op.ceil,
    "cos": relax.op.cos,
    "erf": relax.op.erf,
    "exp": relax.op.exp,
    "floor": relax.op.floor,
    "log": relax.op.log,
    "negative": relax.op.negative,
    "relu": relax.op.nn.relu,
    "rsqrt": relax.op.rsqrt,
    "sigmoid": relax.op.sigmoid,
    "sign": relax.op.sign,
    "sin": relax.op.sin,
    "sqrt": relax.op.sqrt,
    "square": relax.op.square,
    "tanh": relax.op.tanh,
}

_IDENTITIES = (
    "BlockGrad",
    "Dropout",
    "IdentityAttachKLSparseReg",
    "LinearRegressionOutput",
    "MAERegressionOutput",
    "MakeLoss",
    "_copy",
    "identity",
    "make_loss",
    "stop_gradient",
)

# Operator -> the endings of its names: elemwise_add, _plus, _Plus, broadcast_plus, _plus_scalar.
_ARITHMETIC: dict[Binary, tuple[str, ...]] = {
    relax.op.add: ("add", "plus"),
    relax.op.divide: ("div",),
    relax.op.maximum: ("maximum",),
    relax.op.minimum: ("minimum",),
    relax.op.floor_mod: ("mod",),
    relax.op.multiply: ("mul",),
    relax.op.power: ("power",),
    relax.op.subtract: ("sub", "minus"),
}


def _arithmetic() -> dict[str, Converter]:
    """Return the converters of the arithmetic operators, under all their names."""
    converters: dict[str, Converter] = {}
    for op, names in _ARITHMETIC.items():
        for name in names:
            capital = name.capitalize()
            alike = (f"elemwise_{name}", f"_{name}", f"_{capital}")
            converters.update(dict.fromkeys(alike, _elementwise(op)))
            converters[f"broadcast_{name}"] = _broadcast(op)
            converters.update(dict.fromkeys((f"_{name}_scalar", f"_{capital}Scalar"), _scalar(op)))
            backward = _scalar(op, reverse=True)
            converters.update(dict.fromkeys((f"_r{name}_scalar", f"_R{capital}Scalar"), backward))
    return converters


ARITHMETIC: dict[str, Converter] = {
    **_arithmetic(),
    **{name: _unary(op) for name, op in _UNARY.items()},
    **dict.fromkeys(_IDENTITIES, _identity),
    **dict.fromkeys(("add_n", "ElementWiseSum", "elemwise_sum", "_sum"), _sum_of_all),
    **dict.fromkeys(("Cast", "cast", "amp_cast"), _cast),
    **dict.fromkeys(("max", "max_axis"), _reduction(relax.op.max)),
    **dict.fromkeys(("min", "min_axis"), _reduction(relax.op.min)),
    **dict.fromkeys(("sum", "sum_axis"), _reduction(relax.op.sum)),
    **dict.fromkeys(("dot", "batch_dot"), _dot),
    "mean": _reduction(relax.op.mean),
    "nanprod": _of_numbers(relax.op.prod, 1.0),
    "nansum": _of_numbers(relax.op.sum, 0.0),
    "norm": _norm,
    "ones_like": _filled(relax.op.ones),
    "prod": _reduction(relax.op.prod),
    "reciprocal": _reciprocal,
    "zeros_like": _filled(relax.op.zeros),
}
