"""Fold zero padding of height and width into the convolution that follows.

    Before:  p = pad(x, [.. 0, 1, 0, 1], 0);  y = conv2d(p, w, padding=[1, 1, 1, 1])
    After:   y = conv2d(x, w, padding=[1, 1, 2, 2])

Place:  after FoldConstants, before FoldAffine.
Exact:  bit-identical; a pad that others read too stays for them.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="FoldPad")
class FoldPad:
    """Fold zero padding of height and width into the convolution that follows."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such pads folded; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _fold)


def _fold(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "nn.conv2d" or operator(scope.value(value.args[0])) != "nn.pad":
        return None
    pad, attrs = scope.value(value.args[0]), value.attrs
    reason = _refusal(pad, value)
    if reason:
        return Declined(f"the pad {value.args[0].name} is not folded into it: {reason}")
    widths = [int(width) for width in pad.attrs.pad_width]
    top, bottom, left, right = widths[4:]
    added = (top, left, bottom, right)
    return relax.op.nn.conv2d(
        pad.args[0],
        value.args[1],
        strides=[int(i) for i in attrs.strides],
        padding=[int(old) + new for old, new in zip(attrs.padding, added, strict=True)],
        dilation=[int(i) for i in attrs.dilation],
        groups=int(attrs.groups),
    )


def _refusal(pad: relax.Call, conv: relax.Call) -> str | None:
    """Say why a pad stays, or None when the convolution can do it."""
    if pad.attrs.pad_mode != "constant":
        return f"its mode is {pad.attrs.pad_mode}, not constant"
    if float(pad.attrs.pad_value) != 0.0:
        return f"it pads with {pad.attrs.pad_value}, not zero"
    if any(int(width) for width in pad.attrs.pad_width[:4]):
        return "it pads batch or channels"
    if conv.attrs.data_layout != "NCHW":
        return f"the convolution is {conv.attrs.data_layout}"
    return None
