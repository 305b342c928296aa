"""Give samples of a deformable convolution the order of channels that they are turned to.

    Before:  s = sample2d(x, places; groups=channels);  y = reshape(permute_dims(reshape(s)))
    After:   y = sample2d(x, places; groups=g)

Place:  after FoldConstants, before CanonicalizeQdq; samples exported to ONNX are why it exists.
Exact:  bit-identical: the same samples, written elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from schedules.spec import Sample2d

TURNED = [0, 1, 3, 2, 4, 5]  # permutation of batch, group, channel, tap, row, column


@tvm.transform.module_pass(opt_level=0, name="FoldSamples")
class FoldSamples:
    """Give samples of a deformable convolution the order of channels that they are turned to."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such turns folded; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _fold)


def _fold(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if dataflow.operator(value) != "reshape":
        return None
    turn = scope.value(value.args[0])
    split = scope.value(turn.args[0]) if dataflow.operator(turn) == "permute_dims" else turn
    samples = scope.value(split.args[0]) if dataflow.operator(split) == "reshape" else split
    spec = spec_of(samples)
    if not isinstance(spec, Sample2d) or dataflow.operator(turn) != "permute_dims":
        return None
    name = (split.args[0] if dataflow.operator(split) == "reshape" else turn.args[0]).name
    if spec.groups != spec.channels:
        return Declined(f"the samples {name} are turned, but have an order of groups already")
    axes = [int(axis) for axis in turn.attrs.axes or ()]
    if axes != TURNED or dataflow.shape(value)[1:] != spec.shape("y")[1:]:
        return Declined(f"the samples {name} are turned by {axes}, not by {TURNED}")
    groups = int(dataflow.shape(split)[1])
    if dataflow.shape(split)[2:] != (spec.channels // groups, spec.taps, *spec.out_size):
        return Declined(f"the samples {name} are not split into groups, channels and taps")
    tensors, params = operands(samples, spec)
    return kernel_call(replace(spec, groups=groups), tensors, params)
