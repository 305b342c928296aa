"""PyTorch's activations and clipping operators."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.arithmetic import of_reals, unary
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape


def _clip(low: str, high: str, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Converter:
    """Clip between two arguments; of a missing one counts the bound."""

    def _convert(step: TorchStep) -> Result:
        if any(isinstance(step.arguments.get(name), relax.Expr) for name in (low, high)):
            return _between(step, low, high)
        least, most = (
            default if step.arguments.get(name) is None else step.real(name)
            for name, default in zip((low, high), bounds, strict=True)
        )
        return _clipped(step.x, least, most)

    return _convert


def _between(step: TorchStep, low: str, high: str) -> Result:
    """Clip between tensors."""
    x = step.x
    for name, pick in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if step.arguments.get(name) is not None:
            bound = as_type(step, step.operand(name), dtype(x))
            x = step.emit("clipped", pick(x, bound))
    return x


def _clipped(x: relax.Expr, low: float, high: float) -> relax.Expr:
    if np.isfinite(low) and np.isfinite(high):
        return relax.op.clip(x, relax.prim_value(float(low)), relax.prim_value(float(high)))
    if np.isfinite(low):
        return relax.op.maximum(x, relax.const(low, dtype(x)))
    return relax.op.minimum(x, relax.const(high, dtype(x))) if np.isfinite(high) else x


def _hard_gate(step: TorchStep) -> relax.Var:
    """``clip(x + 3, 0, 6)``."""
    shifted = step.emit("shifted", relax.op.add(step.x, step.number(3.0)))
    return step.emit("clipped", _clipped(shifted, 0.0, 6.0))


def _hard_sigmoid(step: TorchStep) -> Result:
    return relax.op.divide(_hard_gate(step), step.number(6.0))


def _hard_swish(step: TorchStep) -> Result:
    scaled = step.emit("scaled", relax.op.multiply(step.x, _hard_gate(step)))
    return relax.op.divide(scaled, step.number(6.0))


def _gelu(step: TorchStep) -> Result:
    form = step.text("approximate", "none")
    if form not in ("none", "tanh"):
        raise ValueError(f"its approximation is {form!r}")
    return (relax.op.nn.gelu if form == "none" else relax.op.nn.gelu_tanh)(step.x)


def _elu(step: TorchStep) -> Result:
    """``scale * (max(x, 0) + alpha * (exp(min(x, 0) * input_scale) - 1))``."""
    if step.real("scale", 1.0) != 1.0 or step.real("input_scale", 1.0) != 1.0:
        raise NotImplementedError("scales other than 1")
    zero = step.number(0.0)
    grown = step.emit("exp", relax.op.exp(step.emit("below", relax.op.minimum(step.x, zero))))
    curve = step.emit("curve", relax.op.subtract(grown, step.number(1.0)))
    scaled = step.emit("scaled", relax.op.multiply(curve, step.number(step.real("alpha", 1.0))))
    return relax.op.add(step.emit("above", relax.op.maximum(step.x, zero)), scaled)


def _prelu(step: TorchStep) -> Result:
    slopes = step.tensor("weight")
    channels = shape(step.x)[1] if step.rank > 1 else 1
    if shape(slopes) == (1,) and channels > 1:
        slopes = step.emit("slopes", relax.op.broadcast_to(slopes, (channels,)))
    if shape(slopes) != (channels,):
        raise ValueError(f"its weight is {shape(slopes)}, not {channels}")
    return relax.op.nn.prelu(step.x, slopes, axis=1)


def _softplus(step: TorchStep) -> Result:
    """``softplus(beta * x) / beta``; beyond the threshold x, to which it is equal from 20 on."""
    beta, threshold = step.real("beta", 1.0), step.real("threshold", 20.0)
    if beta == 1.0 and threshold >= 20.0:
        return relax.op.nn.softplus(step.x)
    scaled = step.emit("scaled", relax.op.multiply(step.x, step.number(beta)))
    grown = step.emit("softplus", relax.op.nn.softplus(scaled))
    y = relax.op.divide(grown, step.number(beta))
    if threshold >= 20.0:
        return y
    is_far = step.emit("is_far", relax.op.greater(scaled, step.number(threshold)))
    return relax.op.where(is_far, step.x, step.emit("near", y))


def _log_sigmoid(step: TorchStep) -> Result:
    """``-softplus(-x)``."""
    turned = step.emit("turned", relax.op.negative(step.x))
    return relax.op.negative(step.emit("softplus", relax.op.nn.softplus(turned)))


def _celu(step: TorchStep) -> Result:
    """``max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)``."""
    zero, alpha = step.number(0.0), step.number(step.real("alpha", 1.0))
    below = step.emit("below", relax.op.minimum(step.x, zero))
    grown = step.emit("exp", relax.op.exp(step.emit("share", relax.op.divide(below, alpha))))
    curve = step.emit("curve", relax.op.subtract(grown, step.number(1.0)))
    scaled = step.emit("scaled", relax.op.multiply(curve, alpha))
    return relax.op.add(step.emit("above", relax.op.maximum(step.x, zero)), scaled)


def _hard_shrink(step: TorchStep) -> Result:
    """``x`` where it is further than ``lambd`` from zero, else 0."""
    limit, size = step.number(step.real("lambd", 0.5)), step.emit("size", relax.op.abs(step.x))
    near = step.emit("near", relax.op.less_equal(size, limit))
    return relax.op.where(near, step.number(0.0), step.x)


def _soft_shrink(step: TorchStep) -> Result:
    """``x`` moved towards zero by ``lambd``, to zero at most."""
    limit = step.real("lambd", 0.5)
    inside = step.emit("inside", _clipped(step.x, -limit, limit))
    return relax.op.subtract(step.x, inside)


def _threshold(step: TorchStep) -> Result:
    """``x`` where it is above a threshold, else ``value``."""
    above = relax.op.greater(step.x, step.number(step.real("threshold")))
    return relax.op.where(step.emit("above", above), step.x, step.number(step.real("value")))


def _logit(step: TorchStep) -> Result:
    """``log(x / (1 - x))``; with ``eps`` x is kept that far from 0 and 1."""
    epsilon = step.arguments.get("eps")
    x = step.x
    if epsilon is not None:
        x = step.emit("inside", _clipped(x, step.real("eps"), 1.0 - step.real("eps")))
    rest = step.emit("rest", relax.op.subtract(step.number(1.0), x))
    return relax.op.log(step.emit("odds", relax.op.divide(x, rest)))


def _mish(step: TorchStep) -> Result:
    grown = step.emit("softplus", relax.op.nn.softplus(step.x))
    return relax.op.multiply(step.x, step.emit("tanh", relax.op.tanh(grown)))


ACTIVATIONS: dict[str, Converter] = {
    "celu": _celu,
    "clamp": _clip("min", "max"),
    "clamp_max": _clip("-", "max"),
    "clamp_min": _clip("min", "-"),
    "elu": _elu,
    "gelu": _gelu,
    "hardshrink": _hard_shrink,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "hardtanh": _clip("min_val", "max_val", (-1.0, 1.0)),
    "leaky_relu": lambda step: relax.op.nn.leakyrelu(step.x, step.real("negative_slope", 0.01)),
    "log_sigmoid": _log_sigmoid,
    "logit": _logit,
    "mish": _mish,
    "prelu": _prelu,
    "relu": unary(relax.op.nn.relu),
    "relu6": lambda step: _clipped(step.x, 0.0, 6.0),
    "selu": unary(relax.op.nn.selu),
    "sigmoid": of_reals(relax.op.sigmoid),
    "silu": unary(relax.op.nn.silu),
    "softplus": _softplus,
    "softshrink": _soft_shrink,
    "threshold": _threshold,
}
