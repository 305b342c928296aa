"""MXNet's activations: clips, leaky slopes, exponentials, softmax in all its forms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.logic import is_within, truth
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape

ACTIVATIONS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "relu": relax.op.nn.relu,
    "sigmoid": relax.op.sigmoid,
    "softrelu": relax.op.nn.softplus,
    "tanh": relax.op.tanh,
}


def _clip(step: MxnetStep) -> relax.Expr:
    low, high = step.attributes.real("a_min"), step.attributes.real("a_max")
    return relax.op.clip(step.x, relax.prim_value(low), relax.prim_value(high))


def _hard_sigmoid(step: MxnetStep) -> relax.Expr:
    """``clip(alpha * x + beta, 0, 1)``."""
    alpha, beta = step.attributes.real("alpha", 0.2), step.attributes.real("beta", 0.5)
    scaled = step.emit("multiply", relax.op.multiply(step.x, step.number(alpha)))
    line = step.emit("add", relax.op.add(scaled, step.number(beta)))
    return relax.op.clip(line, relax.prim_value(0.0), relax.prim_value(1.0))


def _softsign(step: MxnetStep) -> relax.Expr:
    size = step.emit("abs", relax.op.abs(step.x))
    return relax.op.divide(step.x, step.emit("add", relax.op.add(size, step.number(1.0))))


def _activation(step: MxnetStep) -> relax.Expr:
    kind = step.attributes.text("act_type")
    if kind == "softsign":
        return _softsign(step)
    if kind not in ACTIVATIONS:
        raise NotImplementedError(f"activation {kind}; there are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[kind](step.x)


def _leaky_relu(step: MxnetStep) -> relax.Expr:
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


def _elu(step: MxnetStep, slope: float) -> relax.Expr:
    """``max(x, 0) + slope * (exp(min(x, 0)) - 1)``."""
    zero, one = step.number(0.0), step.number(1.0)
    below = step.emit("minimum", relax.op.minimum(step.x, zero))
    grown = step.emit("subtract", relax.op.subtract(step.emit("exp", relax.op.exp(below)), one))
    scaled = step.emit("multiply", relax.op.multiply(grown, step.number(slope)))
    return relax.op.add(step.emit("maximum", relax.op.maximum(step.x, zero)), scaled)


def _softmax(op: Callable[..., relax.Expr], *, negate: bool = False) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        attrs = step.attributes
        has_length = attrs.flag("use_length", False)
        x, *lengths = step.operands("data", *(["length"] if has_length else []))
        axis = axis_of(attrs.integer("axis", -1), len(shape(x)))
        x = _tempered(step, x)
        x = step.emit("negative", relax.op.negative(x)) if negate else x
        if not lengths:
            return op(x, axis)
        inside = is_within(step, lengths[0], shape(x)[axis], len(shape(x)), axis)
        return _of_those(step, op, x, inside, axis)

    return _convert


def _tempered(step: MxnetStep, x: relax.Expr) -> relax.Expr:
    """Divide by the temperature."""
    temperature = step.attributes.real("temperature", 1.0)
    if temperature == 1.0:
        return x
    return step.emit("divide", relax.op.divide(x, step.number(temperature)))


def _of_those(
    step: MxnetStep, op: Callable[..., relax.Expr], x: relax.Expr, inside: relax.Expr, axis: int
) -> relax.Expr:
    """Return a softmax over the places that count; the others get 0 (of a logarithm -inf)."""
    masked = step.emit("masked", relax.op.where(inside, x, step.number(-np.inf)))
    return op(masked, axis)


def _masked_softmax(op: Callable[..., relax.Expr]) -> Converter:
    """Softmax over the places where a mask is not zero."""

    def _convert(step: MxnetStep) -> relax.Expr:
        x, mask = step.operands("data", "mask")
        axis = axis_of(step.attributes.integer("axis", -1), len(shape(x)))
        return _of_those(step, op, _tempered(step, x), truth(step, mask), axis)

    return _convert


def _softmax_output(step: MxnetStep) -> relax.Expr:
    """Softmax along channels (``multi_output``), the last axis, or all but the batch."""
    attrs, rank = step.attributes, len(shape(step.x))
    if attrs.flag("multi_output", False):
        return relax.op.nn.softmax(step.x, axis_of(1, rank))
    if rank == 2 or attrs.flag("preserve_shape", False):
        return relax.op.nn.softmax(step.x, rank - 1)
    return _over_image(step)


def _softmax_activation(step: MxnetStep) -> relax.Expr:
    mode = step.attributes.text("mode", "instance")
    if mode == "channel":
        return relax.op.nn.softmax(step.x, axis_of(1, len(shape(step.x))))
    return relax.op.nn.softmax(step.x, 1) if len(shape(step.x)) == 2 else _over_image(step)


def _over_image(step: MxnetStep) -> relax.Expr:
    """Softmax over everything but the batch."""
    flat = step.emit("flatten", relax.op.reshape(step.x, (shape(step.x)[0], -1)))
    y = step.emit("softmax", relax.op.nn.softmax(flat, 1))
    return relax.op.reshape(y, shape(step.x))


NONLINEAR: dict[str, Converter] = {
    "Activation": _activation,
    "LeakyReLU": _leaky_relu,
    "Softmax": _softmax_output,
    "SoftmaxActivation": _softmax_activation,
    "SoftmaxOutput": _softmax_output,
    "clip": _clip,
    "hard_sigmoid": _hard_sigmoid,
    "log_softmax": _softmax(relax.op.nn.log_softmax),
    "masked_log_softmax": _masked_softmax(relax.op.nn.log_softmax),
    "masked_softmax": _masked_softmax(relax.op.nn.softmax),
    "softmax": _softmax(relax.op.nn.softmax),
    "softmin": _softmax(relax.op.nn.softmax, negate=True),
    "softsign": _softsign,
}
