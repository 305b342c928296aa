"""Write a sum that reads a tensor twice as one that reads it once.

    Before:  a = conv2d(x, v);  b = conv2d(x, w);  y = add(a, b)
    After:   y = conv2d(x, v + w)

    Before:  d = subtract(f, x);  m = multiply(d, a);  y = add(x, m)
    After:   y = add(multiply(f, a), multiply(x, 1 - a))

Branches of networks that were not merged after training (RepVGG, MobileOne, FastViT, RepViT), and
mixtures of a tensor with a function of it. Batch norms and arithmetic with constants of channels
between them belong to the sum. Smaller windows are put into larger ones, a tensor itself and 1x1
windows at the centre.

Only where that rounds less, by the estimate of ``graph.branches``: an identity among many small
weights of a channel would make their steps coarse. It is asked again behind each step, since a
batch norm of a sum is rounded once more, but belongs to a convolution.

Place:  after FoldPad, before FoldAffine, which takes what is left of the chains.
Exact:  weights are float64, rounded to float32 once; sums of float32 are ordered differently.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.fold_affine import batch_norm_scaling
from relay_int8.graph.branches import WeightedSum, Window
from relay_int8.graph.channel_affine import Scaling, channel_arithmetic
from relay_int8.graph.dataflow import (
    IMAGE,
    calls,
    constant,
    consumers,
    dtype,
    is_quantized,
    operator,
    results,
    shape,
)
from relay_int8.graph.declined import Declined, note_declined
from relay_int8.graph.rewriting import Scope, rewrite_main

Sums = dict[relax.Expr, WeightedSum]
SUMS = ("add", "subtract")
SCALINGS = ("multiply", "divide", "negative")


@tvm.transform.module_pass(opt_level=0, name="MergeBranches")
class MergeBranches:
    """Write a sum that reads a tensor twice as one that reads it once."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such sums merged; itself where it has none, or is quantized."""
        if is_quantized(mod) or not _has_repeats(mod["main"]):
            return mod
        sums: Sums = {}

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            written = _weighted(scope, value, sums)
            if written is None:
                return None
            better = _better(written)
            if isinstance(better, Declined):
                note_declined(scope.name, better)
            elif better is not None:
                written, value = better, _emitted(scope, value, better)
            var = scope.bind(scope.name, value)
            sums[var] = written
            return var

        return rewrite_main(mod.clone(), _rewrite)


def _has_repeats(func: relax.Function) -> bool:
    """Say whether a sum may read a tensor twice, looking at no numbers: few networks have one."""
    values, readers, outputs = dict(calls(func)), consumers(func), set(results(func))
    sources: dict[relax.Expr, frozenset[relax.Expr]] = {}

    def _sources(x: relax.Expr) -> frozenset[relax.Expr]:
        is_part = x in sources and len(readers[x]) == 1 and x not in outputs
        return sources[x] if is_part else frozenset([x])

    for var, value in values.items():
        op = operator(value)
        if isinstance(value, relax.TupleGetItem):
            norm = values[value.tuple_value]
            tensors = norm.args[:1] if operator(norm) == "nn.batch_norm" else []
        else:
            tensors = value.args if op in (*SUMS, *SCALINGS, "nn.conv2d") else []
        read = [x for x in tensors if isinstance(x, relax.Var)]
        found = [frozenset([x]) if op == "nn.conv2d" else _sources(x) for x in read]
        if op in SUMS and len(found) == 2 and found[0] & found[1]:
            return True
        if len(found) == 1 or (found and op in SUMS):
            sources[var] = frozenset().union(*found)
    return False


def _better(written: WeightedSum) -> WeightedSum | Declined | None:
    """Return the sum that reads each tensor once, where one is read twice."""
    merged = written.rewritten() if written.repeats else None
    if merged is not None and merged.noise.sum() >= written.noise.sum():
        names = " and ".join(str(var.name) for var in merged.windows)
        return Declined(f"its terms are not joined: a sum that reads {names} once rounds more")
    return merged


def _weighted(scope: Scope, value: relax.Expr, sums: Sums) -> WeightedSum | None:
    """Return the weighted sum that ``value`` is, or None."""
    if isinstance(value, relax.TupleGetItem):
        norm = scope.value(value.tuple_value)
        if value.index != 0 or operator(norm) != "nn.batch_norm" or not _is_image(norm.args[0]):
            return None
        scaling = batch_norm_scaling(scope.name, norm)
        return (
            None if isinstance(scaling, Declined) else _scaled(scope, norm.args[0], scaling, sums)
        )
    if not _is_image(value):
        return None
    if operator(value) == "nn.conv2d":
        window = _window(value)
        return None if window is None else WeightedSum.of(value.args[0], window, "layer")
    step = channel_arithmetic(value)
    if step is not None:
        return _scaled(scope, *step, sums)
    if operator(value) in SUMS:
        return _added(scope, value, sums)
    return None


def _is_image(value: relax.Expr) -> bool:
    """Whether it is a float32 tensor of four axes, all but the first of known size."""
    is_tensor = isinstance(getattr(value, "ty", None), relax.TensorType)
    if not is_tensor or dtype(value) != "float32" or len(shape(value)) != IMAGE:
        return False
    return all(isinstance(extent, int) for extent in shape(value)[1:])


def _window(conv: relax.Call) -> Window | None:
    """Return a convolution of a tensor by constant weights, or None."""
    x, w = conv.args[0], constant(conv.args[1])
    attrs = conv.attrs
    if w is None or not isinstance(x, relax.Var) or not _is_image(x):
        return None
    if (attrs.data_layout, attrs.kernel_layout) != ("NCHW", "OIHW"):
        return None
    top, left = (int(before) for before in attrs.padding[:2])
    dilation = int(attrs.dilation[0]), int(attrs.dilation[1])
    if top % dilation[0] or left % dilation[1]:
        return None
    return Window(
        weights=w.astype(np.float64),
        groups=int(attrs.groups),
        start=(-top // dilation[0], -left // dilation[1]),
        strides=(int(attrs.strides[0]), int(attrs.strides[1])),
        dilation=dilation,
    )


def _scaled(scope: Scope, x: relax.Expr, scaling: Scaling, sums: Sums) -> WeightedSum | None:
    """Return the sum that numbers of each channel make of ``x``."""
    if not isinstance(x, relax.Var):
        return None
    of_x = _known(scope, x, sums)
    factor, shift = (np.broadcast_to(each, of_x.shift.shape) for each in scaling)
    if not (np.isfinite(factor).all() and np.isfinite(shift).all()):
        return None
    return of_x.scaled(factor, shift)


def _added(scope: Scope, value: relax.Call, sums: Sums) -> WeightedSum | None:
    """Return the sum or difference of two tensors of one shape."""
    if any(not isinstance(x, relax.Var) or shape(x) != shape(value) for x in value.args):
        return None
    a, b = (_known(scope, x, sums) for x in value.args)
    return a.plus(b) if operator(value) == "add" else a.minus(b)


def _known(scope: Scope, x: relax.Var, sums: Sums) -> WeightedSum:
    """Return what a tensor is made of where nothing else reads it; else the tensor itself."""
    if x in sums and scope.used_once(x):
        return sums[x]
    return WeightedSum.of(x, Window.identity(shape(x)[1]), "tensor")


def _emitted(scope: Scope, value: relax.Call, total: WeightedSum) -> relax.Expr:
    """Write a sum of one or two terms; the shift goes to a convolution where there is one."""
    windows = total.windows.items()
    ordered = sorted(windows, key=lambda term: (term[1].is_factor, term[1].is_identity))
    terms = [_term(x, window, value) for x, window in ordered]
    if total.shift.any():
        shift = relax.const(total.shift.astype("float32").reshape(1, -1, 1, 1))
        terms[0] = relax.op.add(scope.emit("shifted", terms[0]), shift)
    if len(terms) == 1:
        return terms[0]
    a, b = (term if isinstance(term, relax.Var) else scope.emit("term", term) for term in terms)
    return relax.op.add(a, b)


def _term(x: relax.Var, window: Window, value: relax.Call) -> relax.Expr:
    """Return a convolution of ``x`` that gives what has the shape of ``value``."""
    if window.is_identity:
        return x
    if window.is_factor:
        factors = window.weights.astype("float32").reshape(1, -1, 1, 1)
        return relax.op.multiply(x, relax.const(factors))
    before = [-start * step for start, step in zip(window.start, window.dilation, strict=True)]
    after = [
        (shape(value)[2 + axis] - 1) * window.strides[axis]
        + (int(window.weights.shape[2 + axis]) - 1) * window.dilation[axis]
        + 1
        - shape(x)[2 + axis]
        - before[axis]
        for axis in range(2)
    ]
    return relax.op.nn.conv2d(
        x,
        relax.const(window.weights.astype("float32")),
        strides=list(window.strides),
        padding=[*before, *(max(each, 0) for each in after)],
        dilation=list(window.dilation),
        groups=window.groups,
    )
