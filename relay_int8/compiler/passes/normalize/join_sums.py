"""Write a sum of many 1x1 convolutions as one convolution of their inputs, joined.

    Before:  s = add(conv2d(a, u), conv2d(b, v));  t = add(s, conv2d(c, w));  y = add(t, ...)
    After:   y = conv2d(concat([a, b, c, ...], axis=1), [u, v, w, ...])

The skip connections of WaveNet, of Conv-TasNet and their like. As written, each sum on the way is
a tensor of its own, rounded to a byte, read and written; joined, all is one sum of products.

Only where that rounds less, by an estimate from the weights as in ``graph.branches``: a byte of
each sum on the way, against one of each input, whose range becomes that of the concat; and the
weights of an output channel get one scale, which may be coarse for some of the inputs.

Place:  after FoldAffine, which puts factors of channels into the weights.
Exact:  sums of float32 are ordered differently.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.branches import TENSOR_ROUNDING, Window
from relay_int8.graph.dataflow import IMAGE, constant, dtype, is_quantized, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

Array = np.ndarray
FEWEST = 3  # terms: with two, no sum stands on the way


@dataclass(frozen=True)
class Terms:
    """A sum of 1x1 convolutions: ``inputs``, ``weights`` (oc, ic, 1, 1) of each, one ``bias``."""

    inputs: tuple[relax.Var, ...]
    weights: tuple[Array, ...]
    bias: Array

    def plus(self, other: Terms) -> Terms:
        """Return the sum of both, terms of the other one last."""
        weights = (*self.weights, *other.weights)
        return Terms((*self.inputs, *other.inputs), weights, self.bias + other.bias)

    @property
    def is_better_joined(self) -> bool:
        """Whether one convolution of all inputs rounds less than a sum after the other."""
        windows = [Window(weights=w.astype(np.float64), groups=1) for w in self.weights]
        whole = Window(weights=np.concatenate([w.weights for w in windows], axis=1), groups=1)
        power = np.stack([window.power for window in windows])
        on_the_way = np.cumsum(power, axis=0)[:-1].sum()
        weights_apart = sum(window.weight_noise.sum() for window in windows)
        apart = TENSOR_ROUNDING * on_the_way + weights_apart
        return bool(TENSOR_ROUNDING * power.sum() + whole.weight_noise.sum() < apart)


@tvm.transform.module_pass(opt_level=0, name="JoinSums")
class JoinSums:
    """Write a sum of many 1x1 convolutions as one convolution of their inputs, joined."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such sums joined; itself where it has none, or is quantized."""
        if is_quantized(mod):
            return mod
        joined: dict[relax.Var, Terms] = {}

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            terms = _sum(scope, value, joined)
            if terms is None or len(terms.inputs) < FEWEST:
                return None
            if len(set(terms.inputs)) < len(terms.inputs) or not terms.is_better_joined:
                return None
            var = scope.bind(scope.name, _emitted(scope, terms))
            joined[var] = terms
            return var

        return rewrite_main(mod.clone(), _rewrite)


def _sum(scope: Scope, value: relax.Expr, joined: dict[relax.Var, Terms]) -> Terms | None:
    """Return the terms of an addition of such sums, or None."""
    if operator(value) != "add" or any(not isinstance(x, relax.Var) for x in value.args):
        return None
    found = []
    for x in value.args:
        if shape(x) != shape(value) or not scope.used_once(x):
            return None
        terms = joined[x] if x in joined else _terms(scope, scope.value(x), joined)
        if terms is None:
            return None
        found.append(terms)
    return found[0].plus(found[1])


def _terms(scope: Scope, value: relax.Expr, joined: dict[relax.Var, Terms]) -> Terms | None:
    """Return the terms of a convolution, with or without bias, or of a sum."""
    bias = _bias(value)
    if bias is None:
        return _convolution(value) or _sum(scope, value, joined)
    layer = value.args[0]
    terms = _convolution(scope.value(layer)) if scope.used_once(layer) else None
    return terms and Terms(terms.inputs, terms.weights, terms.bias + bias)


def _bias(value: relax.Expr) -> Array | None:
    """Return (channels,) what an addition adds to each channel of an image, or None."""
    if operator(value) != "add" or len(shape(value)) != IMAGE:
        return None
    channels = shape(value)[1]
    array = constant(value.args[1])
    if array is None or array.shape != (1, channels, 1, 1):
        return None
    return array.reshape(channels).astype(np.float64)


def _convolution(value: relax.Expr) -> Terms | None:
    """Return a convolution of single pixels, all of them, as one term; or None."""
    if operator(value) != "nn.conv2d" or dtype(value) != "float32":
        return None
    x, w, attrs = value.args[0], constant(value.args[1]), value.attrs
    if w is None or not isinstance(x, relax.Var) or w.shape[2:] != (1, 1):
        return None
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW") or int(attrs.groups) != 1:
        return None
    if any(int(step) != 1 for step in attrs.strides) or any(map(int, attrs.padding)):
        return None
    return Terms((x,), (w,), np.zeros(len(w)))


def _emitted(scope: Scope, terms: Terms) -> relax.Expr:
    """Write the joined convolution, and its bias if it has one."""
    x = scope.emit("joined", relax.op.concat(list(terms.inputs), axis=1))
    y = relax.op.nn.conv2d(x, relax.const(np.concatenate(terms.weights, axis=1)))
    if not terms.bias.any():
        return y
    bias = relax.const(terms.bias.astype(np.float32).reshape(1, -1, 1, 1))
    return relax.op.add(scope.emit("conv2d", y), bias)
