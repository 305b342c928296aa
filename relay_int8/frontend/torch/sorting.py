"""PyTorch operators that sort: values in order along an axis, and where they stood.

Equal values keep their order.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape

SORTED = ("float32", "int8", "int32", "int64", "uint8")
"""Types that TVM 0.27 sorts, of those that an import has."""


def ordered(step: TorchStep, count: int, axis: int, *, descending: bool) -> list[relax.Expr]:
    """Return the first ``count`` values in order, and their indices, int64."""
    if dtype(step.x) not in SORTED:
        raise NotImplementedError(f"it sorts {dtype(step.x)}; {', '.join(SORTED)} are read")
    if not 1 <= count <= shape(step.x)[axis]:
        raise ValueError(f"it keeps {count} of {shape(step.x)[axis]}")
    both = step.emit(
        "sorted", relax.op.topk(step.x, count, axis, "both", descending, dtype="int64")
    )
    return [relax.TupleGetItem(both, 0), relax.TupleGetItem(both, 1)]


def _top_k(step: TorchStep) -> Result:
    descending = step.flag("largest", True)
    return ordered(step, step.integer("k"), step.axis("dim", -1), descending=descending)


def _sort_rows(step: TorchStep) -> Result:
    """Return values in order along the first axis."""
    return ordered(step, shape(step.x)[0], 0, descending=False)[0]


def _sort(keep: Callable[[list[relax.Expr]], Result]) -> Converter:
    def _convert(step: TorchStep) -> Result:
        axis = step.axis("dim", -1)
        descending = step.flag("descending", False)
        return keep(ordered(step, shape(step.x)[axis], axis, descending=descending))

    return _convert


SORTING: dict[str, Converter] = {
    "argsort": _sort(lambda both: both[1]),
    "msort": _sort_rows,
    "sort": _sort(lambda both: both),
    "topk": _top_k,
}
