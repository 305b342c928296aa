"""Remove operators whose result equals their operand.

    Before:  y = reshape(x, shape of x);  z = multiply(y, 1);  u = permute_dims(z, [0, 1, 2, 3])
    After:   every reader of u reads x

A concat loses its operands without elements, as exporters write them where a part of the channels
is all of them; no kernel of a GPU could be launched for what makes one.

Place:  after FoldConstants; again after passes that leave such operators behind.
Exact:  bit-identical (x * 1, x / 1 and x + 0 are, but for the sign of a zero).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}
POOLS = {"nn.avg_pool2d", "nn.max_pool2d"}


@tvm.transform.module_pass(opt_level=0, name="RemoveIdentity")
class RemoveIdentity:
    """Remove operators whose result equals their operand."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without no-ops; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _operand_if_identity)


def _operand_if_identity(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    """Return the operand that ``value`` equals, if there is one."""
    if isinstance(value, relax.TupleGetItem) and value.index == 0:
        source = scope.value(value.tuple_value)
        return source.args[0] if operator(source) == "nn.dropout" else None
    if not isinstance(value, relax.Call) or not isinstance(value.ty, relax.TensorType):
        return None
    op = operator(value)
    if op in NEUTRAL:
        return _other_than_neutral(op, value)
    if op == "where":
        return _always_chosen(value)
    if not value.args:
        return None
    x = value.args[0]
    if isinstance(x, relax.Tuple):
        return _joined(value) if op == "concat" else None
    if not isinstance(x, relax.Var) or not isinstance(x.ty, relax.TensorType):
        return None
    if (shape(x), dtype(x)) != (shape(value), dtype(value)):
        return None
    return x if _hands_on(op, value) else None


def _joined(concat: relax.Call) -> relax.Expr | None:
    """Return a concat without its empty operands, or what it joins alone; None if it stays."""
    fields = list(concat.args[0].fields)
    kept = [field for field in fields if not _is_empty(field)]
    if len(kept) == 1:
        return kept[0]
    if not kept or len(kept) == len(fields):
        return None
    return relax.op.concat(kept, axis=int(concat.attrs.axis))


def _is_empty(x: relax.Expr) -> bool:
    return any(isinstance(extent, int) and extent == 0 for extent in shape(x))


def _hands_on(op: str, value: relax.Call) -> bool:
    """Whether an operator of equal input and output type moves nothing."""
    rules: dict[str, Callable[[], bool]] = {
        "permute_dims": lambda: _sorted(value.attrs.axes),
        "nn.pad": lambda: not any(int(width) for width in value.attrs.pad_width),
        "strided_slice": lambda: all(_scalar(step) == 1 for step in _steps(value)),
        "tile": lambda: all(int(repeat) == 1 for repeat in value.attrs.repeats),
        **{op: lambda: list(value.attrs.pool_size) == [1, 1] for op in POOLS},
    }
    kept_shape = {"reshape", "astype", "broadcast_to", "flatten", "squeeze"}
    return op in kept_shape or (op in rules and rules[op]())


def _sorted(axes: object) -> bool:
    return axes is not None and [int(i) for i in axes] == sorted(int(i) for i in axes)  # type: ignore[attr-defined]


def _steps(value: relax.Call) -> list[relax.Expr]:
    """Return the steps of a slice: its fifth argument, absent where they are 1."""
    return list(value.args[4].fields) if len(value.args) > 4 else []


def _scalar(value: relax.Expr) -> int:
    return int(value.value)


def _always_chosen(value: relax.Call) -> relax.Expr | None:
    """Return the operand that a constant condition chooses everywhere, or None."""
    condition = constant(value.args[0])
    if condition is None or not (condition.all() or not condition.any()):
        return None
    x = value.args[1 if condition.all() else 2]
    return x if (shape(x), dtype(x)) == (shape(value), dtype(value)) else None


def _other_than_neutral(op: str, value: relax.Call) -> relax.Expr | Declined | None:
    declined = None
    sides = [(1, 0)] if op in ("subtract", "divide") else [(1, 0), (0, 1)]
    for neutral, kept in sides:
        array = constant(value.args[neutral])
        x = value.args[kept]
        if array is None or not np.all(array == NEUTRAL[op]):
            continue
        if shape(x) == shape(value) and dtype(x) == dtype(value):
            return x
        declined = Declined(
            f"its constant changes no number, but makes {dtype(value)} {shape(value)} of "
            f"{dtype(x)} {shape(x)}"
        )
    return declined
