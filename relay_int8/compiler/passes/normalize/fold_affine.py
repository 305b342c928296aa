"""Fold batch norm and per-channel arithmetic into the convolution or product before it.

    Before:  c = conv2d(x, w);  n = batch_norm(c, ...);  y = multiply(n[0], k)
    After:   c = conv2d(x, w * a);  y = add(c, b)

A chain of batch norms, additions, subtractions, multiplications and divisions by constants per
channel is one ``a * c + b``. The bias has shape (1, oc, 1, 1), or (n,) after matmul. Behind a
product it goes on through reshapes that keep the channels last, as batch norms of tokens have
them, and through the permutation that puts them first, behind which ConvNeXt has its factors.

Of quantized weights the factors are folded into the scales, so that the integers stay: networks
trained with quantization have their batch norms behind the layer.

    Before:  c = conv2d(x, dequantize(w_q, s));  n = batch_norm(c, ...);  y = n[0]
    After:   c = conv2d(x, dequantize(w_q * sign(a), s * |a|));  y = add(c, b)

Place:  after FoldConstants and FoldPad, before LowerBatchNorm.
Exact:  the chain is float64; weights and bias are rounded to float32 once, at its end. A tensor
        that something else reads too ends the chain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.integer_weights import IntegerWeights, integer_weights
from relay_int8.errors import FrontendError
from relay_int8.graph.channel_affine import Scaling, channel_arithmetic
from relay_int8.graph.dataflow import arguments, constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

CHANNELS_FIRST = (0, 3, 1, 2)
"""The permutation of an image whose channels are last."""
KERNELS = {"nn.conv2d": "OIHW", "nn.conv2d_transpose": "IOHW"}


@dataclass(frozen=True)
class ScaledChannels:
    """``scale * base + shift`` per channel of ``base``, a convolution or product by ``w``.

    ``rows`` is that tensor where the chain goes on behind a reshape of it, or, ``turned``, behind
    the permutation to an image whose channels come first. ``pair`` is there if w is quantized.
    """

    base: relax.Call
    scale: np.ndarray
    shift: np.ndarray
    rows: relax.Var | None = None
    turned: bool = False
    pair: IntegerWeights | None = None

    @property
    def channels_are_last(self) -> bool:
        """Whether arithmetic that continues the chain has its channels along the last axis."""
        return operator(self.base) == "matmul" and not self.turned


@tvm.transform.module_pass(opt_level=0, name="FoldAffine")
class FoldAffine:
    """Fold batch norm and per-channel arithmetic into the convolution or product before it."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such chains folded; ``mod`` itself is left alone."""
        chains: dict[relax.Expr, ScaledChannels] = {}

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
            start = _start(scope, value)
            if isinstance(start, Declined):
                return start
            if start is not None:
                var = scope.bind(scope.name, value)
                chains[var] = start
                return var
            if operator(value) == "reshape":
                return _reshaped(scope, value, chains)
            if operator(value) == "permute_dims":
                return _turned(scope, value, chains)
            step = _step(scope, value, chains)
            if not isinstance(step, ScaledChannels):
                return step
            if step.rows is None:
                var = scope.bind(scope.name, _written(scope, step))
            else:
                rows = scope.emit("rows", _written(scope, step))
                step = replace(step, rows=rows)
                var = scope.bind(scope.name, _view(step, rows, shape(value)))
            chains[var] = step
            return var

        return rewrite_main(mod.clone(), _rewrite)


def _start(scope: Scope, value: relax.Expr) -> ScaledChannels | Declined | None:
    """Return the chain that a convolution or product by constant weights begins, if it is one."""
    op = operator(value)
    if op not in (*KERNELS, "matmul"):
        return None
    pair = integer_weights(scope, value)
    if pair is None and not isinstance(value.args[1], tvm.ir.GenericConst):
        return None
    if op == "matmul":
        if len(shape(value.args[1])) != 2 or len(shape(value.args[0])) < 2:
            return None
        channels = shape(value)[-1]
    else:
        layouts = value.attrs.data_layout, value.attrs.kernel_layout
        if layouts != ("NCHW", KERNELS[op]):
            return Declined(f"nothing is folded into it: its layouts are {' and '.join(layouts)}")
        channels = shape(value)[1]
    return ScaledChannels(value, np.ones(channels), np.zeros(channels), pair=pair)


def _step(
    scope: Scope, value: relax.Expr, chains: dict[relax.Expr, ScaledChannels]
) -> ScaledChannels | Declined | None:
    """Return the chain that ``value`` continues, if it does."""
    scaling: Scaling | Declined | None
    if isinstance(value, relax.TupleGetItem):
        norm = scope.value(value.tuple_value)
        if value.index != 0 or operator(norm) != "nn.batch_norm":
            return None
        x, scaling = norm.args[0], batch_norm_scaling(scope.name, norm)
    else:
        read = [arg for arg in arguments(value) if isinstance(arg, relax.Var) and arg in chains]
        is_last = any(chains[arg].channels_are_last for arg in read)
        x, scaling = channel_arithmetic(value, is_last=is_last) or (None, None)
    chain = chains.get(x)
    if chain is None or scaling is None:
        return None
    if isinstance(value, relax.TupleGetItem) and chain.channels_are_last and len(shape(x)) != 2:
        return None  # the norm is over axis 1
    if isinstance(scaling, Declined):
        return scaling
    if not scope.used_once(x):
        return Declined(f"it is not folded into {x.name}, which something else reads too")
    scale, shift = scaling
    if chain.pair and not chain.pair.takes(chain.scale * scale, chain.shift * scale + shift):
        return Declined(f"it is not folded into {x.name}, whose integers would not fit")
    if not (np.isfinite(scale).all() and np.isfinite(shift).all()):  # a mask stays arithmetic
        return Declined(f"it is not folded into {x.name}: its constant is not finite")
    return replace(chain, scale=chain.scale * scale, shift=chain.shift * scale + shift)


def _reshaped(
    scope: Scope, value: relax.Call, chains: dict[relax.Expr, ScaledChannels]
) -> relax.Var | None:
    """Let the chain of a product go on behind a reshape that keeps the channels last, and back."""
    x, dims = value.args[0], shape(value)
    chain = chains.get(x)
    if chain is None or not chain.channels_are_last or not scope.used_once(x):
        return None
    if not all(isinstance(n, int) for n in (*dims, *shape(x))) or dims[-1:] != shape(x)[-1:]:
        return None
    rows = x if chain.rows is None else chain.rows
    if dims == shape(rows):
        chains[rows] = replace(chain, rows=None)
        return rows
    var = scope.bind(scope.name, relax.op.reshape(rows, dims))
    chains[var] = replace(chain, rows=rows)
    return var


def _turned(
    scope: Scope, value: relax.Call, chains: dict[relax.Expr, ScaledChannels]
) -> relax.Var | None:
    """Let the chain of a product go on behind the permutation that puts its channels first."""
    x, axes = value.args[0], value.attrs.axes
    chain = chains.get(x)
    if chain is None or not chain.channels_are_last or chain.rows is not None:
        return None
    if axes is None or tuple(map(int, axes)) != CHANNELS_FIRST or not scope.used_once(x):
        return None
    var = scope.bind(scope.name, value)
    chains[var] = replace(chain, rows=x, turned=True)
    return var


def _view(chain: ScaledChannels, rows: relax.Var, dims: tuple[int, ...]) -> relax.Call:
    """Return the rows of a product as what the chain goes on behind."""
    if chain.turned:
        return relax.op.permute_dims(rows, CHANNELS_FIRST)
    return relax.op.reshape(rows, dims)


def batch_norm_scaling(name: str, norm: relax.Call) -> Scaling | Declined:
    """Return scale and shift of a batch norm with constant statistics over axis 1, in float64."""
    arrays = [constant(argument) for argument in norm.args[1:]]
    axis = int(norm.attrs.axis) % len(shape(norm.args[0]))
    if norm.attrs.training:
        return Declined("the batch norm computes its statistics, as in training")
    if axis != 1:
        return Declined(f"the batch norm is over axis {axis}, not 1")
    if any(array is None for array in arrays):
        return Declined("the batch norm has statistics or weights that are no constants")
    gamma, beta, mean, variance = (np.asarray(array, "float64") for array in arrays)
    spread = variance + np.float64(norm.attrs.epsilon)
    if not (spread > 0).all():
        raise FrontendError(
            f"batch norm {name}: a variance of {variance.min()} with epsilon "
            f"{norm.attrs.epsilon} is not positive; the model's statistics are broken"
        )
    scale = (gamma if norm.attrs.scale else 1.0) / np.sqrt(spread)
    return scale, (beta if norm.attrs.center else 0.0) - mean * scale


def _written(scope: Scope, chain: ScaledChannels) -> relax.Call:
    """Return a chain as its convolution or product with new weights, and a bias."""
    base, kind = chain.base, dtype(chain.base)
    conv = operator(base) in KERNELS
    if (chain.scale != 1.0).any() and chain.pair is not None:
        w = scope.emit("weight", chain.pair.scaled(scope, chain.scale))
        base = relax.Call(base.op, [base.args[0], w], base.attrs)
    elif (chain.scale != 1.0).any():
        w = np.asarray(constant(base.args[1]), "float64") * _along_weights(chain)
        base = relax.Call(base.op, [base.args[0], relax.const(w.astype(kind), kind)], base.attrs)
    y = scope.emit(operator(base).split(".")[-1], base)
    bias = chain.shift.astype(kind).reshape((1, -1, 1, 1) if conv else (-1,))
    return relax.op.add(y, relax.const(bias, kind))


def _along_weights(chain: ScaledChannels) -> np.ndarray:
    """Return the scale of each output channel as it meets the weights."""
    if operator(chain.base) == "matmul":
        return chain.scale
    if operator(chain.base) == "nn.conv2d":
        return chain.scale[:, None, None, None]
    groups = int(chain.base.attrs.groups)
    inputs = shape(chain.base.args[1])[0]
    return np.repeat(chain.scale.reshape(groups, -1), inputs // groups, 0)[:, :, None, None]
