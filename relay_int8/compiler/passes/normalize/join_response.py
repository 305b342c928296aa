"""Write a residual product with a quotient as one product, and its constants as the quotient's.

    Before:  m = multiply(x, q);  t = multiply(m, gamma);  s = add(t, beta);  y = add(x, s)
    After:   f = multiply(q, gamma);  g = add(f, 1);  p = multiply(x, g);  y = add(p, beta)

The norm of responses of ConvNeXtV2 is so: q is the norm of each channel of an image, divided by
their mean, and broadcast over the image, so that two passes over it become arithmetic with a few
numbers. What is no quotient stays as it is: a gate between 0 and 1 would lose a bit as 1 to 2.

Place:  after CanonicalizeTokens, before FoldShift, which takes beta.
Exact:  within float rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, is_quantized, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.standard_deviation import is_same

ONE = np.ones((), np.float32)


@tvm.transform.module_pass(opt_level=0, name="JoinResponse")
class JoinResponse:
    """Write a residual product with a quotient as one product."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such products joined; itself if it is quantized already."""
        return mod if is_quantized(mod) else rewrite_main(mod.clone(), _joined)


def _joined(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "add" or dtype(value) != "float32":
        return None
    for x, response in (value.args, reversed(value.args)):
        for product, beta in _with_constants(scope, response, "add"):
            for inner, gamma in _with_constants(scope, product, "multiply"):
                quotient = _factor(scope, inner, x)
                if quotient is not None:
                    return _written(scope, x, quotient, gamma, beta)
    return None


def _with_constants(
    scope: Scope, operand: relax.Expr, op: str
) -> Iterator[tuple[relax.Expr, np.ndarray | None]]:
    """Yield an operand, and if it alone is combined with a constant, what is and the constant."""
    if not scope.used_once(operand):
        return
    yield operand, None
    value = scope.value(operand)
    if operator(value) == op:
        for x, other in (value.args, reversed(value.args)):
            array = constant(other)
            if array is not None and shape(x) == shape(value) and scope.used_once(x):
                yield x, array


def _factor(scope: Scope, operand: relax.Expr, x: relax.Expr) -> relax.Expr | None:
    """Return the quotient that a product multiplies ``x`` by, if it is broadcast."""
    value = scope.value(operand)
    if operator(value) != "multiply" or shape(value) != shape(x):
        return None
    for other, factor in (value.args, reversed(value.args)):
        quotient = scope.value(factor)
        is_computed = operator(quotient) == "divide" and constant(quotient.args[1]) is None
        if is_computed and is_same(other, x) and _is_smaller(shape(factor), shape(x)):
            return factor
    return None


def _is_smaller(dims: tuple[int, ...], than: tuple[int, ...]) -> bool:
    """Say whether a tensor has the same rank and images, and fewer elements of each."""
    if len(dims) != len(than) or not all(isinstance(n, int) for n in (*dims[1:], *than[1:])):
        return False
    return math.prod(dims[1:]) < math.prod(than[1:])


def _written(
    scope: Scope,
    x: relax.Expr,
    quotient: relax.Expr,
    gamma: np.ndarray | None,
    beta: np.ndarray | None,
) -> relax.Expr | None:
    factor = quotient
    if gamma is not None:
        factor = scope.emit("factor", relax.op.multiply(quotient, relax.const(gamma)))
        if not _is_smaller(shape(factor), shape(x)):
            return None
    factor = scope.emit("factor/residual", relax.op.add(factor, relax.const(ONE)))
    product = relax.op.multiply(x, factor)
    if beta is None:
        return product
    return relax.op.add(scope.emit("product", product), relax.const(beta))
