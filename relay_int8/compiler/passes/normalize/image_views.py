"""Shared by passes that rewrite tensors of another rank as images: the view behind each image."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax

from relay_int8.graph.dataflow import operator, results, shape, with_arguments
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope


class ImageViews:
    """Tensors of a function that are views of images, and the images.

    Parameters
    ----------
    func
        The function as it is; what it returns keeps its names.
    image, view
        What an image and what a view of it is called, in names of new tensors.
    """

    def __init__(self, func: relax.Function, image: str, view: str) -> None:
        self._results = {str(var.name) for var in results(func)}
        self._image, self._view = image, view
        self.images: dict[relax.Var, relax.Var] = {}

    def bind(
        self, scope: Scope, image: relax.Expr, view_of: Callable[[relax.Var], relax.Expr]
    ) -> relax.Var:
        """Bind an image and the view that has its place; only results of a function keep names."""
        is_result = scope.name in self._results
        held = scope.bind(f"{scope.name}/{self._image}" if is_result else scope.name, image)
        name = scope.name if is_result else f"{scope.name}/{self._view}"
        var = scope.bind(name, view_of(held))
        self.images[var] = held
        return var


def batch_norm_of(scope: Scope, value: relax.TupleGetItem, rank: int) -> relax.Call | None:
    """Return the batch norm of a tensor of ``rank`` axes whose result ``value`` is, or None."""
    norm = scope.value(value.tuple_value)
    is_norm = value.index == 0 and operator(norm) == "nn.batch_norm"
    return norm if is_norm and len(shape(value)) == rank else None


def normalized_image(
    scope: Scope,
    norm: relax.Call,
    rank: int,
    image_of: Callable[[Scope, relax.Expr], relax.Expr],
) -> relax.Expr | Declined:
    """Return what a batch norm over axis 1 of a tensor of ``rank`` axes makes of its image."""
    if int(norm.attrs.axis) % rank != 1:
        return Declined(f"the batch norm is over axis {norm.attrs.axis}, not 1")
    x = image_of(scope, norm.args[0])
    call = with_arguments(norm, [x, *norm.args[1:]])
    return relax.TupleGetItem(scope.emit("batch_norm", call), 0)


def is_tensor(value: relax.Expr) -> bool:
    """Say whether an operand is a tensor, a constant one too."""
    return isinstance(value, relax.Var | tvm.ir.GenericConst)
