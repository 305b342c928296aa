"""Which constants of a QDQ model a kernel of integers reads beside a quantized tensor.

    k = dequantize(int8 constant, s, z);  y_q = quantize(add(dequantize(a, ...), k))

and the like of multiply: biases behind a quantized product.
"""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.graph import dataflow

COMBINED = ("add", "multiply")
"""Operators of two tensors, whose integer kernels may read integers of the file."""
CLAMPS = ("clip", "nn.relu")
"""What may stand between such an operator and its quantize."""


def operands_of_integers(func: relax.Function) -> dict[str, int]:
    """Return the name of a dequantized constant -> the axes of what it is combined with.

    One number a channel of an image is left out: chains of those are one operator.
    """
    network = _Network(func)
    constants = [var for var in network.values if network.is_dequantized(var, constant=True)]
    ranks = {
        str(var.name): {network.combined_axes(var, reader) for reader in network.readers[var]}
        for var in constants
    }
    return {
        name: next(iter(each)) for name, each in ranks.items() if len(each) == 1 and 0 not in each
    }


class _Network:
    """What a function computes, and who reads it."""

    def __init__(self, func: relax.Function) -> None:
        self.values = dict(dataflow.calls(func))
        self.readers = dataflow.consumers(func)
        self._results = dataflow.results(func)

    def is_dequantized(self, x: relax.Expr, *, constant: bool) -> bool:
        """Say whether ``x`` stands for integers of one known scale: of a constant, or computed."""
        value = self.values.get(x)
        if value is None or dataflow.operator(value) != "dequantize":
            return False
        q, scale, zero = map(dataflow.constant, value.args)
        return (
            (q is not None) == constant
            and scale is not None
            and scale.size == 1
            and zero is not None
        )

    def combined_axes(self, constant: relax.Var, reader: relax.Var) -> int:
        """Return the axes of what reads a constant if a kernel of integers can give it, or 0."""
        value = self.values[reader]
        others = [arg for arg in value.args if not arg.same_as(constant)]
        if dataflow.operator(value) not in COMBINED or len(others) != 1:
            return 0
        dims, own = dataflow.shape(reader), dataflow.shape(constant)
        if math.prod(own) == 1 or (len(dims) == dataflow.IMAGE and own[-2:] == (1, 1)):
            return 0
        if dataflow.shape(others[0]) != dims or not self.is_dequantized(others[0], constant=False):
            return 0
        return len(dims) if self._is_quantized(reader) else 0

    def _is_quantized(self, var: relax.Var) -> bool:
        if len(self.readers[var]) != 1 or var in self._results:
            return False
        reader = self.readers[var][0]
        kind = dataflow.operator(self.values[reader])
        return kind == "quantize" or (kind in CLAMPS and self._is_quantized(reader))
