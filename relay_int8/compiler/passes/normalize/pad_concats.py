"""Write a concat with a constant of one value as padding.

    Before:  y = concat([x, zeros], axis=1)
    After:   y = pad(x, [0, 0, 0, channels of zeros, 0, 0, 0, 0], 0)

Shortcuts of CIFAR's residual networks get their new channels so. Bytes are padded as bytes, while a
concat with a constant is of floats.

Place:  after RemoveIdentity, which drops operands without elements; before FoldPad.
Exact:  bit-identical (but for the sign of a zero).
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, is_quantized, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="PadConcats")
class PadConcats:
    """Write a concat with a constant of one value as padding."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such concats padded; itself if it is quantized already."""
        return mod if is_quantized(mod) else rewrite_main(mod.clone(), _padded)


def _padded(_scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "concat" or dtype(value) != "float32":
        return None
    fields, axis = value.args[0].fields[:], int(value.attrs.axis) % len(shape(value))
    arrays = [constant(field) for field in fields]
    computed = [i for i, array in enumerate(arrays) if array is None]
    if axis == 0 or len(computed) != 1 or len(fields) == 1:
        return None  # axis 0 is that of images
    (index,) = computed
    values = np.unique(np.concatenate([a.reshape(-1) for a in arrays if a is not None]))
    if values.size != 1 or not np.isfinite(values).all():
        return None
    extents = [shape(field)[axis] for field in fields]
    widths = [0] * (2 * len(shape(value)))
    widths[2 * axis : 2 * axis + 2] = sum(extents[:index]), sum(extents[index + 1 :])
    return relax.op.nn.pad(fields[index], widths, "constant", float(values[0]))
