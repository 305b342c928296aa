"""Compute of images with channels first what a file computes of them with channels last.

    Before:  t = permute_dims(conv2d(x, w), [0, 2, 3, 1]);  r = relu(multiply(t, k))
             y = conv2d(permute_dims(r, [0, 3, 1, 2]), v)
    After:   y = conv2d(relu(multiply(conv2d(x, w), reshape(k))), v)

Converters of TensorFlow and JAX write permutations around each convolution, and what stands between
two convolutions with channels last: then neither batch norms nor activations belong to the layer.
Steps that read each other are a region. A region is rewritten if fewer permutations are left, or if
as many are and constants of the channels come to stand behind a convolution.

Place:  after CanonicalizeNorm, which knows norms over the last axis; before FoldAffine.
Exact:  bit-identical, but for the order of the float sums of means.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.channels_last import (
    FIRST,
    LAST,
    is_step,
    is_turn,
    is_vector,
    keeps_rank,
    tensors,
    turned_constant,
    turned_step,
)
from relay_int8.compiler.passes.normalize.image_views import ImageViews
from relay_int8.graph.channel_affine import channel_arithmetic
from relay_int8.graph.dataflow import calls, constant, consumers, operator, results, shape
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeChannels")
class CanonicalizeChannels:
    """Compute of images with channels first what a file computes of them with channels last."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with fewer permutations; ``mod`` itself is left alone."""
        func = mod["main"]
        chosen = _Regions(func).worth_turning()
        return rewrite_main(mod.clone(), _Canonicalizer(func, chosen).rewrite) if chosen else mod


class _Regions:
    """Which steps could be computed with channels first, by the permutations they hang on."""

    def __init__(self, func: relax.Function) -> None:
        self._values = dict(calls(func))
        self._readers = consumers(func)
        self._results = set(results(func))
        self._members: dict[relax.Var, list[relax.Var]] = {}
        for var, value in self._values.items():
            images = [tensor for tensor in tensors(value) if self._is_image(tensor)]
            if is_turn(value, LAST) and isinstance(value.args[0], relax.Var):
                self._members[var] = [var]
            elif images and (is_turn(value, FIRST) or self._is_step(value)):
                self._join(var, images)

    def worth_turning(self) -> set[relax.Var]:
        """Return the steps of all regions that are better with channels first."""
        regions = {id(region): region for region in self._members.values()}
        return {var for region in regions.values() if self._is_worth(region) for var in region}

    def _is_image(self, tensor: relax.Expr) -> bool:
        """Whether a tensor is known with channels first."""
        if not isinstance(tensor, relax.Var) or tensor not in self._members:
            return False
        value = self._values[tensor]
        return keeps_rank(value) and not is_turn(value, FIRST)

    def _is_step(self, value: relax.Expr) -> bool:
        return is_step(value) and all(
            self._is_image(tensor)
            or not isinstance(tensor.ty, relax.TensorType)
            or constant(tensor) is not None
            or is_vector(tensor)
            for tensor in tensors(value)
        )

    def _join(self, var: relax.Var, images: list[relax.Expr]) -> None:
        """Let ``var`` belong to the regions of what it reads, which are one then."""
        region = [var]
        for joined in {id(self._members[image]): self._members[image] for image in images}.values():
            region += joined
        for member in region:
            self._members[member] = region

    def _is_worth(self, region: list[relax.Var]) -> bool:
        inside = set(region)
        entries = {var for var in region if is_turn(self._values[var], LAST)}
        removed = added = 0
        for var in region:
            value = self._values[var]
            outside = var in self._results or not inside.issuperset(self._readers[var])
            if var in entries:
                removed += not outside
            elif is_turn(value, FIRST):
                removed += 1
            elif keeps_rank(value) and not is_vector(value):
                added += outside
        return removed > added or (
            removed == added and any(self._is_bias(var, entries) for var in region)
        )

    def _is_bias(self, var: relax.Var, entries: set[relax.Var]) -> bool:
        """Whether a step is arithmetic with constants of a convolution's channels."""
        step = channel_arithmetic(self._values[var], is_last=True)
        if step is None or step[0] not in entries:
            return False
        source = self._values.get(self._values[step[0]].args[0])
        return source is not None and operator(source) == "nn.conv2d"


class _Canonicalizer:
    def __init__(self, func: relax.Function, chosen: set[relax.Var]) -> None:
        self._views = ImageViews(func, image="first", view="last")
        self._chosen: Iterator[bool] = iter([var in chosen for var, _ in calls(func)])

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        """Return the permutation of an image with channels first, in the place of ``value``."""
        if not next(self._chosen):
            return None
        if is_turn(value, LAST):
            var = scope.bind(scope.name, value)
            self._images[var] = value.args[0]
            return var
        if is_turn(value, FIRST):
            return self._images[value.args[0]]
        step = turned_step(value, [self._turned(scope, tensor) for tensor in tensors(value)])
        return self._views.bind(scope, step, _last) if keeps_rank(value) else step

    @property
    def _images(self) -> dict[relax.Var, relax.Var]:
        return self._views.images

    def _turned(self, scope: Scope, tensor: relax.Expr) -> relax.Expr:
        """Return an operand with channels first."""
        array = constant(tensor)
        if array is not None:
            return turned_constant(array)
        if isinstance(tensor, relax.Var) and tensor not in self._images:
            n, _, _, channels = shape(tensor)
            view = relax.op.reshape(tensor, (n, channels, 1, 1))
            self._images[tensor] = scope.bind(f"{tensor.name}/first", view)
        return self._images[tensor] if isinstance(tensor, relax.Var) else tensor


def _last(image: relax.Var) -> relax.Expr:
    """Return an image with channels last."""
    n, channels, *pixels = shape(image)
    if list(pixels) == [1, 1]:
        return relax.op.reshape(image, (n, 1, 1, channels))
    return relax.op.permute_dims(image, LAST)
