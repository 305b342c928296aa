"""Scalar expressions of the numeric contract, and reading activations by their logical index.

Exact: every formula of ``schedules.spec`` rounds where the specification rounds. No float multiply
feeds a float add, since compilers contract the two on some CPUs only; ``fma`` is the one exception,
explicit and rounded once everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies import fixed_point
from schedules.bodies.vectors import rint
from schedules.layout import ROW, Layout
from schedules.spec import Spec
from schedules.template import Layouts

Index = Sequence[Any]


def centred(q: Expr, z: Expr) -> Expr:
    """Return ``q - z`` in int32."""
    return q.astype("int32") - z


def clamp(t: Expr, bounds: tuple[Expr, Expr]) -> Expr:
    """Return ``t`` clamped to ``bounds``."""
    return te.min(te.max(t, bounds[0]), bounds[1])


def to_integer(t: Expr, z: Expr, bounds: tuple[Expr, Expr], dtype: str) -> Expr:
    """Return ``int(min(max(rint(t), bounds[0]), bounds[1])) + z`` in ``dtype``.

    Clamped before rint, which is the same for whole-number bounds: rint converts in one
    instruction, and SSE2 has none that only rounds.
    """
    return (rint(clamp(t, bounds)) + z).astype(dtype)


def requantize(
    spec: Any, acc: Expr, factors: Sequence[Expr], z: Expr, bounds: tuple[Expr, Expr]
) -> Expr:
    """Return an int32 value times its multiplier in y's type, rounded and clamped.

    ``factors`` are the elements of ``spec.scaled_by("m")``: m float32, or m and shift, int32. Where
    y is float32 the product is clamped only.
    """
    if spec.rounding:
        m, shift = factors
        product = fixed_point.wide(acc) * fixed_point.wide(m)
        return fixed_point.to_integer(product, shift, z, bounds, spec.y, spec.rounding)
    t = acc.astype("float32") * factors[0]
    return clamp(t, bounds) if spec.y == "float32" else to_integer(t, z, bounds, spec.y)


def blend(condition: Expr, if_true: Expr, if_false: Expr) -> Expr:
    """Choose between two float32, or two int32, by masking their bits.

    TVM turns a select between values that are loaded into a branch, which is not vectorized.
    """
    dtype, mask = str(if_true.ty.dtype), tirx.const(0, "int32") - condition.astype("int32")
    bits = [tirx.reinterpret("int32", value) for value in (if_true, if_false)]
    return tirx.reinterpret(dtype, (bits[0] & mask) | (bits[1] & ~mask))


def is_same(a: Any, b: Any) -> bool:
    """Say whether two sizes, each a number or a symbol, are equal."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return bool(tirx.Var.same_as(a, b)) if isinstance(a, tirx.Var) else False


def is_ragged(layout: Layout, shape: Index) -> bool:
    """Say whether the last block of ``shape`` has lanes past the last channel."""
    return layout.block > 0 and shape[1] % layout.block != 0


def placeholders(spec: Spec, layouts: Layouts) -> dict[str, te.Tensor]:
    """Return the activations of ``spec`` as TE inputs, in physical shapes."""
    return {
        name: te.placeholder(layout.physical_shape(spec.shape(name)), spec.dtype(name), name)
        for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    }


def constants(spec: Spec, **sizes: int) -> dict[str, te.Tensor]:
    """Return the constants of ``spec`` as TE inputs: vectors of 1 element, or as ``sizes`` says."""
    return {
        name: te.placeholder(
            (sizes.get(name, 2 if name == "clamp" else 1),), spec.constant_dtype(name), name
        )
        for name in spec.params
    }


@dataclass(frozen=True)
class OutputElement:
    """The element of y being computed, and what its expression may read."""

    spec: Any  # the class of the template's kind
    layouts: Layouts
    tensors: dict[str, te.Tensor]
    params: dict[str, te.Tensor]
    physical: tuple[Expr, ...]

    @property
    def logical(self) -> tuple[Expr, ...]:
        """The logical index of the element."""
        return self.layouts.output.logical_index(self.physical)

    def param(self, name: str, index: Any = 0) -> Expr:
        """Return one element of a constant."""
        return self.params[name](index)

    @property
    def bounds(self) -> tuple[Expr, Expr]:
        """The two clamp bounds."""
        return self.param("clamp", 0), self.param("clamp", 1)

    def here(self, name: str) -> Expr:
        """Return activation ``name`` at the same index; axes of extent 1 are broadcast."""
        shape, y_shape = self.spec.shape(name), self.spec.shape("y")
        equal = [is_same(a, b) for a, b in zip(shape, y_shape, strict=True)]
        if all(equal) and self._layout(name) == self.layouts.output:
            return self.tensors[name](*self.physical)
        index = [i if same else 0 for i, same in zip(self.logical, equal, strict=True)]
        return self.at(name, index)

    def at(self, name: str, logical: Index) -> Expr:
        """Return activation ``name`` at any logical index."""
        return self.tensors[name](*self._layout(name).physical_index(logical))

    def _layout(self, name: str) -> Layout:
        position: int = self.spec.tensors.index(name)
        return self.layouts.inputs[position]


def common_suffix(spec: Spec, layouts: Layouts) -> int:
    """Return over how many trailing axes of y every input is read contiguously or broadcast.

    For an operator that reads its inputs at the place it writes. All axes: one flat loop will do.
    """
    output, shape = layouts.output, spec.shape("y")
    if any(layout != output for layout in layouts.inputs):
        return 0
    physical = output.physical_shape(shape)
    runs = [len(physical)]
    for name in spec.tensors:
        source = spec.shape(name)
        if not all(is_same(a, b) for a, b in zip(source, shape, strict=True)):
            runs.append(broadcast_suffix(output.physical_shape(source), physical))
    return min(runs)


def broadcast_suffix(source: Index, target: Index) -> int:
    """Count the trailing axes that are all equal, or else all of extent 1 in ``source``."""
    kinds = ["equal" if is_same(a, b) else "one" for a, b in zip(source, target, strict=True)]
    run = 1
    while run < len(kinds) and kinds[-run - 1] == kinds[-1]:
        run += 1
    return run


def channel(point: OutputElement) -> Expr:
    """Return the channel of an element; lanes past the last channel are taken for the last one."""
    index, channels = point.logical[1], int(point.spec.shape("y")[1])
    block = point.layouts.output.block
    return tirx.min(index, channels - 1) if block and channels % block else index


def run_within_channels(spec: Spec, layouts: Layouts, run: int) -> int:
    """Return ``run``, ended where a constant by channel is read: before the channels of a row."""
    after = len(spec.shape("y")) - 2 if layouts.output == ROW else 1
    return min(run, max(after, 1))
