"""MXNet operators that compute element by element, and reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet_layers import axis_of
from relay_int8.frontend.mxnet_step import Converter, Step
from relay_int8.graph import shape

Unary = Callable[[relax.Expr], relax.Expr]
Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def _unary(op: Unary) -> Converter:
    def convert(step: Step) -> relax.Expr:
        (x,) = step.operands("data")
        return op(x)

    return convert


def _identity(step: Step) -> relax.Expr:
    return step.x


def _elementwise(op: Binary) -> Converter:
    def convert(step: Step) -> relax.Expr:
        a, b = step.operands("lhs", "rhs")
        if shape(a) != shape(b):
            raise ValueError(f"its inputs are {list(shape(a))} and {list(shape(b))}, not alike")
        return op(a, b)

    return convert


def _broadcast(op: Binary) -> Converter:
    def convert(step: Step) -> relax.Expr:
        a, b = step.operands("lhs", "rhs")
        return op(a, b)

    return convert


def _scalar(op: Binary, *, reverse: bool = False) -> Converter:
    def convert(step: Step) -> relax.Expr:
        (x,) = step.operands("data")
        k = step.number(step.attributes.real("scalar", 0.0))
        return op(k, x) if reverse else op(x, k)

    return convert


def _sum_of_all(step: Step) -> relax.Expr:
    total = step.x
    for other in step.inputs[1:-1]:
        total = step.emit("add", relax.op.add(total, other))
    return relax.op.add(total, step.inputs[-1]) if len(step.inputs) > 1 else total


def _clip(step: Step) -> relax.Expr:
    low, high = step.attributes.real("a_min"), step.attributes.real("a_max")
    return relax.op.clip(step.x, relax.prim_value(low), relax.prim_value(high))


def _hard_sigmoid(step: Step) -> relax.Expr:
    """``clip(alpha * x + beta, 0, 1)``."""
    alpha, beta = step.attributes.real("alpha", 0.2), step.attributes.real("beta", 0.5)
    scaled = step.emit("multiply", relax.op.multiply(step.x, step.number(alpha)))
    line = step.emit("add", relax.op.add(scaled, step.number(beta)))
    return relax.op.clip(line, relax.prim_value(0.0), relax.prim_value(1.0))


def _softsign(step: Step) -> relax.Expr:
    size = step.emit("abs", relax.op.abs(step.x))
    return relax.op.divide(step.x, step.emit("add", relax.op.add(size, step.number(1.0))))


def _activation(step: Step) -> relax.Expr:
    kind = step.attributes.text("act_type")
    if kind == "softsign":
        return _softsign(step)
    if kind not in ACTIVATIONS:
        raise NotImplementedError(f"activation {kind}; there are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[kind](step.x)


def _leaky_relu(step: Step) -> relax.Expr:
    """Activations with a slope below zero; ``rrelu`` has the mean of its bounds."""
    attrs, x = step.attributes, step.x
    kind = attrs.text("act_type", "leaky")
    slope = attrs.real("slope", 0.25)
    if kind == "prelu":
        x, gamma = step.operands("data", "gamma")
        channels = shape(x)[1] if len(shape(x)) > 1 else 1
        if shape(gamma) not in ((1,), (channels,)):
            raise ValueError(f"its gamma is {list(shape(gamma))}, not [1] or [{channels}]")
        if shape(gamma) != (channels,):
            gamma = step.emit("gamma", relax.op.broadcast_to(gamma, (channels,)))
        return relax.op.nn.prelu(x, gamma, axis=1)
    if kind in ("leaky", "rrelu"):
        if kind == "rrelu":
            slope = (attrs.real("lower_bound", 0.125) + attrs.real("upper_bound", 0.334)) / 2
        return relax.op.nn.leakyrelu(x, slope)
    if kind == "elu":
        return _elu(step, slope)
    if kind in ("selu", "gelu"):
        return (relax.op.nn.selu if kind == "selu" else relax.op.nn.gelu)(x)
    raise NotImplementedError(f"LeakyReLU of kind {kind}")


def _elu(step: Step, slope: float) -> relax.Expr:
    """``max(x, 0) + slope * (exp(min(x, 0)) - 1)``."""
    zero, one = step.number(0.0), step.number(1.0)
    below = step.emit("minimum", relax.op.minimum(step.x, zero))
    grown = step.emit("subtract", relax.op.subtract(step.emit("exp", relax.op.exp(below)), one))
    scaled = step.emit("multiply", relax.op.multiply(grown, step.number(slope)))
    return relax.op.add(step.emit("maximum", relax.op.maximum(step.x, zero)), scaled)


def _softmax(op: Callable[..., relax.Expr], *, negate: bool = False) -> Converter:
    def convert(step: Step) -> relax.Expr:
        attrs = step.attributes
        (x,) = step.operands("data")
        axis = axis_of(attrs.integer("axis", -1), len(shape(x)))
        temperature = attrs.real("temperature", 1.0)
        if temperature != 1.0:
            x = step.emit("divide", relax.op.divide(x, step.number(temperature)))
        return op(step.emit("negative", relax.op.negative(x)) if negate else x, axis)

    return convert


def _softmax_output(step: Step) -> relax.Expr:
    """Softmax along channels (``multi_output``), the last axis, or all but the batch."""
    attrs, rank = step.attributes, len(shape(step.x))
    if attrs.flag("multi_output", False):
        return relax.op.nn.softmax(step.x, axis_of(1, rank))
    if rank == 2 or attrs.flag("preserve_shape", False):
        return relax.op.nn.softmax(step.x, rank - 1)
    return _over_image(step)


def _softmax_activation(step: Step) -> relax.Expr:
    mode = step.attributes.text("mode", "instance")
    if mode == "channel":
        return relax.op.nn.softmax(step.x, axis_of(1, len(shape(step.x))))
    return relax.op.nn.softmax(step.x, 1) if len(shape(step.x)) == 2 else _over_image(step)


def _over_image(step: Step) -> relax.Expr:
    """Softmax over everything but the batch."""
    flat = step.emit("flatten", relax.op.reshape(step.x, (shape(step.x)[0], -1)))
    y = step.emit("softmax", relax.op.nn.softmax(flat, 1))
    return relax.op.reshape(y, shape(step.x))


def _reduction(op: Callable[..., relax.Expr]) -> Converter:
    def convert(step: Step) -> relax.Expr:
        attrs, rank = step.attributes, len(shape(step.x))
        given = [axis_of(axis or 0, rank) for axis in attrs.integers("axis")]
        if attrs.flag("exclude", False):
            given = [axis for axis in range(rank) if axis not in given]
        axes = given or list(range(rank))
        y = op(step.x, axes, keepdims=attrs.flag("keepdims", False))
        return y

    return convert


def _cast(step: Step) -> relax.Expr:
    """Change the type; half and double precision are computed as float32."""
    kind = step.attributes.text("dtype")
    types = {"float16": "float32", "float64": "float32"}
    known = ("float32", "int8", "uint8", "int32", "int64", *types)
    if kind not in known:
        raise NotImplementedError(f"a cast to {kind}; there are {', '.join(known)}")
    return relax.op.astype(step.x, types.get(kind, kind))


def _dot(step: Step) -> relax.Expr:
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


def _reciprocal(step: Step) -> relax.Expr:
    return relax.op.divide(step.number(1.0), step.x)


def _filled(value: float) -> Converter:
    def convert(step: Step) -> relax.Expr:
        return relax.const(np.full(shape(step.x), value, "float32"))

    return convert


ACTIVATIONS: dict[str, Unary] = {
    "relu": relax.op.nn.relu,
    "sigmoid": relax.op.sigmoid,
    "softrelu": relax.op.nn.softplus,
    "tanh": relax.op.tanh,
}

_UNARY: dict[str, Unary] = {
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
    "LogisticRegressionOutput": lambda x: relax.op.sigmoid(x),
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
    relax.op.multiply: ("mul",),
    relax.op.power: ("power",),
    relax.op.subtract: ("sub", "minus"),
}


def _arithmetic() -> dict[str, Converter]:
    """Return the converters of the arithmetic operators, under all their names."""
    found: dict[str, Converter] = {}
    for op, names in _ARITHMETIC.items():
        for name in names:
            capital = name.capitalize()
            alike = (f"elemwise_{name}", f"_{name}", f"_{capital}")
            found.update(dict.fromkeys(alike, _elementwise(op)))
            found[f"broadcast_{name}"] = _broadcast(op)
            found.update(dict.fromkeys((f"_{name}_scalar", f"_{capital}Scalar"), _scalar(op)))
            backward = _scalar(op, reverse=True)
            found.update(dict.fromkeys((f"_r{name}_scalar", f"_R{capital}Scalar"), backward))
    return found


ARITHMETIC: dict[str, Converter] = {
    **_arithmetic(),
    **{name: _unary(op) for name, op in _UNARY.items()},
    **dict.fromkeys(_IDENTITIES, _identity),
    **dict.fromkeys(("add_n", "ElementWiseSum", "elemwise_sum", "_sum"), _sum_of_all),
    **dict.fromkeys(("Cast", "cast", "amp_cast"), _cast),
    **dict.fromkeys(("SoftmaxOutput", "Softmax"), _softmax_output),
    **dict.fromkeys(("max", "max_axis"), _reduction(relax.op.max)),
    **dict.fromkeys(("min", "min_axis"), _reduction(relax.op.min)),
    **dict.fromkeys(("sum", "sum_axis"), _reduction(relax.op.sum)),
    **dict.fromkeys(("dot", "batch_dot"), _dot),
    "Activation": _activation,
    "LeakyReLU": _leaky_relu,
    "SoftmaxActivation": _softmax_activation,
    "clip": _clip,
    "hard_sigmoid": _hard_sigmoid,
    "log_softmax": _softmax(relax.op.nn.log_softmax),
    "mean": _reduction(relax.op.mean),
    "ones_like": _filled(1.0),
    "reciprocal": _reciprocal,
    "softmax": _softmax(relax.op.nn.softmax),
    "softmin": _softmax(relax.op.nn.softmax, negate=True),
    "softsign": _softsign,
    "zeros_like": _filled(0.0),
}
