"""Products of mixtures of experts: each row by the matrix of the expert that it was given to."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape


def _grouped_products(step: TorchStep) -> Result:
    """Multiply each row by the matrix of its group; ``offs`` says behind which row groups end.

    Rows behind the last group, which torch leaves as they are, are multiplied by its matrix.
    """
    x = step.tensor("input" if "input" in step.arguments else "self")
    w = step.tensor("weight" if "weight" in step.arguments else "mat2")
    ends = step.tensor("offs")
    if len(shape(x)) != 2 or len(shape(w)) != 3 or step.arguments.get("bias") is not None:
        raise NotImplementedError(f"groups of {list(shape(x))} by {list(shape(w))}, or with a bias")
    rows = relax.const(np.arange(shape(x)[0])[:, None], dtype(ends))
    passed = step.emit("passed", relax.op.greater_equal(rows, ends))
    counted = step.emit("counted", relax.op.astype(passed, "int64"))
    group = step.emit("group", relax.op.sum(counted, [1]))
    matrices = step.emit("matrices", relax.op.take(w, group, 0, mode="clip"))
    row = step.emit("row", relax.op.expand_dims(x, 1))
    product = step.emit("product", relax.op.matmul(row, matrices))
    return relax.op.reshape(product, (shape(x)[0], shape(w)[2]))


EXPERTS: dict[str, Converter] = {
    "aten._grouped_mm": _grouped_products,
    "transformers.grouped_mm_fallback": _grouped_products,
}
"""PyTorch's operator, and what HuggingFace's transformers have in its place on CPUs."""
