"""Give every kernel a template of the target, and one packed layout to whole regions.

    Before:  y = call_dps_packed('{"kind": "conv2d", ...}', (x, w, bias, ...))      x, y in NCHW
    After:   y = call_tir(conv2d_vnni_0, (x, w', bias', ...))                       x, y in NCHW16c

Place:  after ShiftSigns; ScheduleKernels follows.
Exact:  bit-identical; constants are packed here, at compile time.

A tensor takes the layout its readers want: that of convolutions first. Quantize, dequantize and
the operators that move integers read and write any layout, so that a region's ends and the
operators that cut blocks need no repack of their own. Where a reader wants another layout than a
tensor has, one repack is made, and noted among the origins of main's variables.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import cast

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.compiler.kernel_library import shared_function
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import INPUT_LAYOUT, LAYOUTS, SPEC, TEMPLATE
from relay_int8.graph.origins import Origins
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.any_size import of_any_size
from schedules.bodies.move import keeps_blocks
from schedules.layout import NHWC, ROW, Layout
from schedules.selection import select
from schedules.spec import LAST, DType, Move, Spec, sized, to_json
from schedules.template import Layouts, Measured, ScheduleTemplate, not_measured

INPUT_LAYOUTS = {"NCHW": ROW, "NHWC": NHWC}


@tvm.transform.module_pass(opt_level=0, name="AlterLayout")
class AlterLayout:
    """Give every kernel a template of the target, and one packed layout to whole regions.

    Some kernels of a ``transient`` network are those that serve tensors of any size.
    """

    def __init__(
        self, target: Target, measured: Measured = not_measured, *, transient: bool = False
    ) -> None:
        self._target = target
        self._measured = measured
        self._transient = transient

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with packed kernels; ``mod`` itself is left alone."""
        return _LayoutWriter(mod, self._target, self._measured, self._transient).run()


class _LayoutWriter:
    """Rewrites one function, every tensor of which is kept in one or more layouts."""

    def __init__(self, mod: IRModule, target: Target, measured: Measured, transient: bool) -> None:
        self._func = mod["main"]
        self._target = target
        self._transient = transient
        self._writer = dataflow.FunctionWriter(mod, func=self._func)
        self._origins = Origins(self._func)
        self._specs = {
            var: spec
            for var, value in dataflow.calls(self._func)
            if (spec := spec_of(value)) is not None
        }
        self._templates = {var: select(spec, target, measured) for var, spec in self._specs.items()}
        self._wanted = self._wishes()
        self._sizes = {str(size.name): size for size in dataflow.open_sizes(self._func)}
        self._layout: dict[relax.Expr, Layout] = {}
        self._held: dict[tuple[relax.Expr, Layout], relax.Expr] = {}
        self._kernels: dict[tuple[str, str, str], tvm.ir.GlobalVar] = {}

    def run(self) -> IRModule:
        """Write the function anew; its results stay in row-major order."""
        attributes = dataflow.attributes(self._func)
        params = [self._held_input(param, attributes) for param in self._func.params]
        attributes.pop(INPUT_LAYOUT, None)
        for var, value in dataflow.calls(self._func):
            if var in self._specs:
                self._kernel(var, value)
            else:
                reads = _tensors(value)
                renamed = {argument: self._in_layout(argument, ROW) for argument in reads}
                self._hold(
                    var, ROW, self._writer.emit(var.name, dataflow.substitute(value, renamed))
                )
        outputs = [self._in_layout(var, ROW) for var in dataflow.results(self._func)]
        return self._writer.finish(params, outputs, self._origins.added_to(attributes))

    def _held_input(self, param: relax.Var, attributes: Mapping[str, object]) -> relax.Var:
        """Take an input as it lies in memory; return the parameter that stands for it."""
        layout = INPUT_LAYOUTS[str(attributes.get(INPUT_LAYOUT, "NCHW"))]
        if layout != ROW:
            shape = layout.physical_shape(dataflow.shape(param))
            held = relax.Var(param.name, relax.TensorType(shape, dataflow.dtype(param)))
        else:
            held = param
        self._hold(param, layout, held)
        return held

    def _wishes(self) -> dict[relax.Var, Layout]:
        """Return the layout that the readers of each tensor want, the keenest reader first."""
        wishes: dict[relax.Var, tuple[int, Layout]] = {}
        for var, value in reversed(list(dataflow.calls(self._func))):
            spec = self._specs.get(var)
            if spec is None:
                continue
            tensors, _ = operands(value, spec)
            layouts, keen = self._wish(var, wishes.get(var, (0, ROW))[1])
            for tensor, layout in zip(tensors, layouts.inputs, strict=True):
                if keen >= wishes.get(tensor, (-1, ROW))[0]:
                    wishes[tensor] = keen, layout
        return {var: layout for var, (_, layout) in wishes.items()}

    def _wish(self, var: relax.Var, output: Layout) -> tuple[Layouts, int]:
        """Return the layouts a kernel would like, and 1 if it takes no others, else 0.

        Axes that a reshape or a transposition gives other names want none that are in blocks,
        unless these stay whole.
        """
        spec, template = self._specs[var], self._templates[var]
        renamed = (
            isinstance(spec, Move)
            and spec.move in ("reshape", "transpose")
            and not _shows_blocks(spec, output)
        )
        free = [output if _is_image(spec, name) and not renamed else ROW for name in spec.tensors]
        liked = template.layouts(spec, Layouts(inputs=tuple(free), output=output))
        plain = template.layouts(spec, Layouts(inputs=(ROW,) * len(free), output=ROW))
        fixed = liked == plain and any(layout != ROW for layout in plain.inputs)
        return liked, int(fixed)

    def _kernel(self, var: relax.Var, value: relax.Call) -> None:
        spec, template = self._specs[var], self._templates[var]
        tensors, params = operands(value, spec)
        for tensor in tensors:
            if dataflow.constant(tensor) is not None:
                self._hold(tensor, ROW, tensor)
        present = tuple(self._layout[tensor] for tensor in tensors)
        # Without a reader, y leaves the network in rows; a shuffle gathers elements in any layout.
        unread = ROW if isinstance(spec, Move) and spec.move == "shuffle" else present[0]
        output = self._wanted.get(var, unread)
        wanted = Layouts(inputs=present, output=output if _is_image(spec, "y") else ROW)
        layouts = template.layouts(spec, wanted)
        if self._moved_in_place(var, spec, layouts, tensors):
            return
        inputs = [
            self._in_layout(tensor, layout)
            for tensor, layout in zip(tensors, layouts.inputs, strict=True)
        ]
        call = self._call(spec, template, layouts, inputs, params)
        self._hold(var, layouts.output, self._writer.emit(var.name, call))

    def _moved_in_place(
        self, var: relax.Var, spec: Spec, layouts: Layouts, tensors: list[relax.Expr]
    ) -> bool:
        """Turn a move that moves no byte into a view; return whether it is one."""
        if not isinstance(spec, Move) or not _moves_nothing(spec, layouts):
            return False
        held = self._in_layout(tensors[0], layouts.inputs[0])
        dims = layouts.output.physical_shape(spec.y_shape)
        view = self._writer.emit(
            var.name, relax.op.reshape(held, [self._own_size(size) for size in dims])
        )
        self._hold(var, layouts.output, view)
        return True

    def _in_layout(self, var: relax.Expr, layout: Layout) -> relax.Expr:
        """Return ``var`` in ``layout``, repacked once where it does not lie so already."""
        if (var, layout) not in self._held:
            source = self._layout[var]
            shape = dataflow.shape(var)
            spec = Move(
                move="copy", x_shape=shape, y_shape=shape, x=cast(DType, dataflow.dtype(var))
            )
            layouts = Layouts(inputs=(source,), output=layout)
            template = select(spec, self._target)
            call = self._call(spec, template, layouts, [self._held[var, source]], {})
            name = str(getattr(var, "name", "constant"))
            repacked = self._writer.derive(f"{name}:{layout.name}", call)
            self._origins.note(repacked, name, "repack")
            self._held[var, layout] = repacked
        return self._held[var, layout]

    def _call(
        self,
        spec: Spec,
        template: ScheduleTemplate,
        layouts: Layouts,
        inputs: list[relax.Expr],
        params: Mapping[str, np.ndarray | relax.Expr],
    ) -> relax.Call:
        constants = list(_packed(template, spec, params))
        shape = layouts.output.physical_shape(spec.shape("y"))
        out = relax.TensorType([self._own_size(size) for size in shape], spec.dtype("y"))
        compiled, function = self._function(spec, template, layouts)
        if LAST in compiled.params:
            last = (int(spec.shape("y")[1]) - 1) % layouts.output.block + 1
            constants.append(relax.const(np.array([last], compiled.constant_dtype(LAST))))
        return relax.call_tir(function, [*inputs, *constants], out)

    def _own_size(self, size: int | tvm.ir.Expr) -> int | tvm.ir.Expr:
        """Return a size in variables of the network: a spec names them, and has some of its own."""
        if isinstance(size, int):
            return size
        return tvm_ffi.structural_map(
            size, (tvm.ir.Var, lambda var: sized(str(var.name), self._sizes))
        )

    def _function(
        self, spec: Spec, template: ScheduleTemplate, layouts: Layouts
    ) -> tuple[Spec, tvm.ir.GlobalVar]:
        """Return what is compiled and the PrimFunc of a kernel; equal kernels share one."""
        spec, layouts = template.general(spec, layouts)
        if self._transient:
            template, spec, layouts = of_any_size(template, spec, layouts, self._target)
        names = json.dumps([layout.name for layout in (*layouts.inputs, layouts.output)])
        key = (template.name, to_json(spec), names)
        if key not in self._kernels:
            attributes = {SPEC: key[1], TEMPLATE: template.name, LAYOUTS: names}
            func = shared_function(
                lambda: template.kernel(spec, layouts).with_attr(attributes), *key
            )
            self._kernels[key] = self._writer.add_kernel(func, _name(key))
        return spec, self._kernels[key]

    def _hold(self, var: relax.Expr, layout: Layout, value: relax.Expr) -> None:
        self._layout[var] = layout
        self._held[var, layout] = value


def _name(key: tuple[str, str, str]) -> str:
    """Return the name of a kernel: the same in every network that has it."""
    digest = hashlib.sha256(json.dumps(key).encode()).digest()
    return f"{key[0]}_{int.from_bytes(digest[:5])}"


def _packed(
    template: ScheduleTemplate, spec: Spec, params: Mapping[str, np.ndarray | relax.Expr]
) -> Iterable[relax.Expr]:
    """Return the constants as the template reads them; variables are passed on."""
    arrays = {name: value for name, value in params.items() if isinstance(value, np.ndarray)}
    packed = template.pack(spec, arrays) if len(arrays) == len(params) else params
    return [_expression(packed[name]) for name in spec.params]


def _expression(value: np.ndarray | relax.Expr) -> relax.Expr:
    return relax.const(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


def _moves_nothing(spec: Move, layouts: Layouts) -> bool:
    """Whether the bytes of x are those of y already."""
    (source,), output = layouts.inputs, layouts.output
    if spec.move == "transpose" and len(spec.x_shape) == 4:
        if source == ROW:
            return spec.arguments == (0, 3, 1, 2) and _lies_as_nhwc(output, spec.y_shape)
        return (
            output == ROW and spec.arguments == (0, 2, 3, 1) and _lies_as_nhwc(source, spec.x_shape)
        )
    if source == output and _shows_blocks(spec, output):
        return True
    if spec.move != "reshape" or output != ROW:
        return False
    blocks = source.block or 1  # one pixel lies in NHWC as it does row by row
    return source == ROW or (spec.x_shape[2:] == (1, 1) and not spec.x_shape[1] % blocks)


def _shows_blocks(spec: Move, layout: Layout) -> bool:
    """Whether a reshape is of images, and shows the same blocks of channels in their order."""
    return spec.move == "reshape" and layout.block > 0 and keeps_blocks(spec, layout.block)


def _lies_as_nhwc(layout: Layout, dims: tuple[int, ...]) -> bool:
    """Whether the channels of an image are innermost, in one whole block."""
    return layout == NHWC or layout.block == dims[1]


def _is_image(spec: Spec, name: str) -> bool:
    """Say whether a tensor has the four axes that layouts are about."""
    return len(spec.shape(name)) == 4


def _tensors(value: relax.Expr) -> list[relax.Var]:
    """Return the tensors, and tuples of them, that a value reads; an open batch is none."""
    kinds = relax.TensorType | relax.TupleType
    read = dataflow.arguments(value)
    return [var for var in read if isinstance(var, relax.Var) and isinstance(var.ty, kinds)]
