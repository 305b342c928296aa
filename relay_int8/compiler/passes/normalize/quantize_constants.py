"""Replace the quantize of a constant in an imported QDQ model by the integers that it gives.

    Before:  w = dequantize(quantize(float constant, s, z), s, z);  y = conv2d(x, w)
    After:   w = dequantize(int8 constant, s, z);  y = conv2d(x, w)

Exporters of networks that were trained with quantization keep weights in float, and so does
quantize_static with AddQDQPairToWeight. What a concat reads keeps its pair: the concat joins
quantized tensors, such as a token of a class and those of an image.

Place:  after FoldConstants, before TransposeQuantized: what comes then knows integer weights.
Exact:  bit-identical.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.rewriting import Scope, rewrite_main

BETWEEN = ("broadcast_to", "dequantize", "expand_dims", "permute_dims", "reshape", "squeeze")
"""What may stand between a quantize and a concat."""
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")


@tvm.transform.module_pass(opt_level=0, name="QuantizeConstants")
class QuantizeConstants:
    """Replace the quantize of a constant by the integers that it gives."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with integer constants; ``mod`` itself is left alone."""
        func = mod["main"]
        values, readers = dict(dataflow.calls(func)), dataflow.consumers(func)

        def _is_joined(var: relax.Var) -> bool:
            """Whether a concat reads a tensor, moved or as it is."""
            kinds = [(reader, dataflow.operator(values[reader])) for reader in readers[var]]
            return any(
                kind == "concat" or (kind in BETWEEN and _is_joined(reader))
                for reader, kind in kinds
            )

        joined = {
            str(var.name)
            for var, value in values.items()
            if dataflow.operator(value) == "quantize" and _is_joined(var)
        }

        def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            is_alone = dataflow.operator(value) == "quantize" and scope.name not in joined
            return _integers(value) if is_alone else None

        return rewrite_main(mod.clone(), _rewrite)


def _integers(value: relax.Call) -> relax.Expr | None:
    """Return what a quantize gives if its operands are constants."""
    arrays = [dataflow.constant(argument) for argument in value.args]
    if str(value.attrs.out_dtype) not in INTEGERS or any(array is None for array in arrays):
        return None
    x, scale, zero = (np.asarray(array, np.float32) for array in arrays)
    info = np.iinfo(str(value.attrs.out_dtype))
    axes = [-1 if axis == int(value.attrs.axis) % x.ndim else 1 for axis in range(x.ndim)]
    scale, zero = (p.reshape(() if p.size == 1 else axes) for p in (scale, zero))
    steps = np.rint(x / scale) + zero
    return relax.const(np.clip(steps, info.min, info.max).astype(info.dtype))
