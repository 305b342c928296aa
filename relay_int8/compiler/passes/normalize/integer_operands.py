"""Which constants of a QDQ model a kernel of integers reads beside a quantized tensor.

    k = dequantize(int8 constant, s, z);  y_q = quantize(add(dequantize(a, ...), k))

and the like of multiply: biases behind a quantized product.
"""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.graph import dataflow

PAIRS = ("add", "multiply")
"""Operators of two tensors, whose integer kernels may read integers of the file."""
CLAMPS = ("clip", "nn.relu")
"""What may stand between a pair and its quantize."""


def operands_of_integers(func: relax.Function) -> dict[str, int]:
    """Return the name of a dequantized constant -> the axes of what it is combined with.

    One number a channel of an image is left out: chains of those are one operator.
    """
    values, readers = dict(dataflow.calls(func)), dataflow.consumers(func)
    results = dataflow.results(func)

    def _is_dequantized(x: relax.Expr, *, constant: bool) -> bool:
        value = values.get(x)
        if value is None or dataflow.operator(value) != "dequantize":
            return False
        scale, zero = (dataflow.constant(argument) for argument in value.args[1:])
        is_constant = dataflow.constant(value.args[0]) is not None
        return (
            is_constant == constant and scale is not None and scale.size == 1 and zero is not None
        )

    def _is_quantized(var: relax.Var) -> bool:
        if len(readers[var]) != 1 or var in results:
            return False
        reader = readers[var][0]
        kind = dataflow.operator(values[reader])
        return kind == "quantize" or (kind in CLAMPS and _is_quantized(reader))

    def _combined(constant: relax.Var, reader: relax.Var) -> int:
        """Return the axes of the result if a kernel of integers can give it, or 0."""
        value = values[reader]
        others = [arg for arg in value.args if not arg.same_as(constant)]
        if dataflow.operator(value) not in PAIRS or len(others) != 1:
            return 0
        dims, own = dataflow.shape(reader), dataflow.shape(constant)
        if math.prod(own) == 1 or (len(dims) == dataflow.IMAGE and own[-2:] == (1, 1)):
            return 0
        if dataflow.shape(others[0]) != dims or not _is_dequantized(others[0], constant=False):
            return 0
        return len(dims) if _is_quantized(reader) else 0

    ranks = {
        str(var.name): {_combined(var, reader) for reader in readers[var]}
        for var in values
        if _is_dequantized(var, constant=True)
    }
    return {
        name: next(iter(each)) for name, each in ranks.items() if len(each) == 1 and 0 not in each
    }
