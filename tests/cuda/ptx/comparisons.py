"""Comparisons, and choices by predicates, as PTX has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.cuda.ptx.operation import Array, Modifiers, Operation, is_float

COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
JOINED = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def set_predicate(modifiers: Modifiers) -> Operation:
    name, *joins, dtype = modifiers
    compare = _comparison(name, dtype)
    if not joins:
        return Operation((dtype, dtype), compare, "pred")
    join = JOINED["".join(joins)]
    return Operation((dtype, dtype, "pred"), lambda a, b, p: join(compare(a, b), p), "pred")


def _comparison(name: str, dtype: str) -> Callable[[Array, Array], Array]:
    """Return a comparison; of floats, those with a "u" are true also where one is no number."""
    if not is_float(dtype):
        return COMPARISONS[name]
    if name in ("num", "nan"):
        return lambda a, b: (np.isnan(a) | np.isnan(b)) == (name == "nan")
    if name.endswith("u") and name[:-1] in COMPARISONS:
        ordered = COMPARISONS[name[:-1]]
        return lambda a, b: ordered(a, b) | np.isnan(a) | np.isnan(b)
    if name == "ne":  # ordered: NumPy's is true of what is no number
        return lambda a, b: (a < b) | (a > b)
    return COMPARISONS[name]


def select(modifiers: Modifiers) -> Operation:
    (dtype,) = modifiers
    return Operation((dtype, dtype, "pred"), lambda a, b, p: np.where(p, a, b), dtype)
