"""Kernels that compute each element of y from a few elements of the inputs, in any layouts.

    x, ... : logical tensors in their layouts
    y      : every physical element is written; integer lanes past the last channel hold anything,
             float32 ones hold 0

Over ``run`` trailing axes of y the inputs are read contiguously (block annotation): all axes, some,
or none where layouts differ. Loops: see ``elementwise`` of ``schedules.cpu`` or ``schedules.cuda``.

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import template_name
from schedules.bodies.expressions import (
    OutputElement,
    common_suffix,
    constants,
    is_ragged,
    placeholders,
)
from schedules.layout import ROW, Layout
from schedules.spec import Spec
from schedules.template import Layouts


def first_layout(spec: Spec, wanted: Layouts) -> Layouts:
    """Take the first input as it comes, every other tensor in the same layout."""
    layout = _fitting(wanted.inputs[0], spec, spec.tensors[0])
    return Layouts(inputs=(layout,) * len(spec.tensors), output=layout)


def any_layouts(spec: Spec, wanted: Layouts) -> Layouts:
    """Read and write whatever is wanted."""
    inputs = zip(wanted.inputs, spec.tensors, strict=True)
    return Layouts(
        inputs=tuple(_fitting(layout, spec, name) for layout, name in inputs),
        output=_fitting(wanted.output, spec, "y"),
    )


def _fitting(layout: Layout, spec: Spec, name: str) -> Layout:
    """Return ``layout`` for an image, row major for what is none."""
    return layout if len(spec.shape(name)) == 4 else ROW


def elementwise_kernel(
    spec: Spec,
    layouts: Layouts,
    value: Callable[[OutputElement], Expr],
    run: int | None = None,
    *,
    pieces: int = 0,
    **sizes: int,
) -> tirx.PrimFunc:
    """Return the PrimFunc that writes ``value`` of each point to y.

    Parameters
    ----------
    run
        Over how many trailing axes of y the inputs are read contiguously or not at all; by
        default what holds for an operator that reads where it writes.
    pieces
        How many neighbours along the last axis are read contiguously, where all of it is not.
    sizes
        Of the constants that have not their usual one.
    """
    tensors, params = placeholders(spec, layouts), constants(spec, **sizes)
    shape = layouts.output.physical_shape(spec.shape("y"))
    run = common_suffix(spec, layouts) if run is None else run
    padded = is_ragged(layouts.output, spec.shape("y"))
    zeroed = padded and spec.dtype("y") == "float32"
    if zeroed:
        run = min(run, 1)

    def _element(*physical: Expr) -> Expr:
        point = OutputElement(spec, layouts, tensors, params, physical)
        if not (zeroed or (padded and run == 0)):
            return value(point)
        # A run reads lanes that exist in every input; elsewhere the read itself must be guarded.
        choose = tirx.Select if run else tirx.if_then_else
        return choose(
            point.logical[1] < spec.shape("y")[1], value(point), tirx.const(0, spec.dtype("y"))
        )

    name = f"{spec.kind}_y" if spec.kind in params else spec.kind
    attrs = {"template": template_name(spec.kind), "run": run}
    if pieces:
        attrs["pieces"] = pieces
    y = te.compute(shape, _element, name=name, attrs=attrs)
    inputs = [*tensors.values(), *params.values(), y]
    func = te.create_prim_func(inputs, index_dtype_override="int64")
    return func.without_attr("global_symbol")
