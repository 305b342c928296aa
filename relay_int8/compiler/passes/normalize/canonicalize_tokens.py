"""Turn images into rows of channels, and back, by one permutation of the image's axes.

    Before:  y = permute_dims(reshape(x, [n, c, h * w]), [0, 2, 1])
    After:   y = reshape(permute_dims(x, [0, 2, 3, 1]), [n, h * w, c])

    Before:  y = reshape(permute_dims(x, [0, 2, 1]), [n, c, h, w])
    After:   y = permute_dims(reshape(x, [n, h, w, c]), [0, 3, 1, 2])

So a permutation is one between layouts of an image, which a kernel with channels innermost does not
need, and the reshape is of rows, which moves nothing.

Place:  after CanonicalizeReshape.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import IMAGE, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeTokens")
class CanonicalizeTokens:
    """Turn images into rows of channels, and back, by one permutation of the image's axes."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the rewritten module; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) == "permute_dims" and _swaps_last(value):
        return _to_rows(scope, value)
    if operator(value) == "reshape" and len(shape(value)) == IMAGE:
        return _to_image(scope, value)
    return None


def _to_rows(scope: Scope, value: relax.Call) -> relax.Expr | None:
    flat = scope.value(value.args[0])
    if operator(flat) != "reshape" or not isinstance(flat.args[0], relax.Var):
        return None
    image = shape(flat.args[0])
    if len(image) != IMAGE or image[:2] != shape(flat)[:2] or not scope.used_once(value.args[0]):
        return None
    turned = scope.emit("image", relax.op.permute_dims(flat.args[0], (0, 2, 3, 1)))
    return relax.op.reshape(turned, shape(value))


def _to_image(scope: Scope, value: relax.Call) -> relax.Expr | None:
    turned = scope.value(value.args[0])
    if operator(turned) != "permute_dims" or not _swaps_last(turned):
        return None
    n, c, h, w = shape(value)
    if shape(turned)[:2] != (n, c) or not scope.used_once(value.args[0]):
        return None
    rows = scope.emit("image", relax.op.reshape(turned.args[0], (n, h, w, c)))
    return relax.op.permute_dims(rows, (0, 3, 1, 2))


def _swaps_last(value: relax.Call) -> bool:
    """Say whether a permutation swaps the last two of three axes."""
    axes = value.attrs.axes
    return axes is not None and [int(axis) for axis in axes] == [0, 2, 1]
