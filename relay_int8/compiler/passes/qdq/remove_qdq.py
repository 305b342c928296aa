"""Take quantization out of a QDQ module again.

    Before:  x_q = quantize(x, s, z);  x_dq = dequantize(x_q, s, z);  y = relu(x_dq)
    After:   y = relu(x)

Place:  on its own: the float network that a quantized one is compared with.
Exact:  lossy: what rounding and saturation did is undone, as far as constants still hold it.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="RemoveQdq")
class RemoveQdq:
    """Take quantization out of a QDQ module again."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without its pairs; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _unpaired)


def _unpaired(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "dequantize":
        return None
    quantize = scope.value(value.args[0])
    if operator(quantize) == "quantize":
        return quantize.args[0]
    return Declined("no quantize gives its integers")
