"""Element-wise arithmetic of float32 that is compiled once for tensors of any size.

    x, y : (1, c/16, h, w, 16) or row major, any rank
    b    : as x; or (1, c/16, 1, 1, 16), (1, c, 1, ...), (1,)

Loops after scheduling (p parallel, v vectorized):

    p:block    position  v:lane      NCHW16c
    p:channel  position              row major, a b for each channel
    p:task     element               row major otherwise, eight tasks

Exact:  bit-identical to the kernels that know their sizes; elements are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.binary import FLOAT_OPERATORS
from schedules.bodies.buffers import declare_arguments, flat, whole
from schedules.bodies.expressions import clamp
from schedules.bodies.functions import gelu, sigmoid
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_cpu
from schedules.cpu.outermost import share_outermost
from schedules.layout import NCHW16C, ROW, Layout
from schedules.spec import LAST, Arithmetic, Binary, Gelu, Rescale, Shape, Sigmoid
from schedules.template import Layouts, ScheduleTemplate

NAME = "arithmetic_cpu"
LANES = NCHW16C.block
TASKS = 8
Known = Rescale | Binary | Sigmoid | Gelu
"""Specs of kernels that know their sizes."""


def opened(spec: Known, layouts: Layouts) -> Arithmetic | None:
    """Return the kernel for all sizes that computes ``spec``, or None where there is none."""
    arithmetic = _arithmetic(spec)
    all_layouts = {*layouts.inputs, layouts.output}
    if arithmetic is None or len(all_layouts) > 1 or not _is_open(arithmetic, layouts.output):
        return None
    return _general(arithmetic, layouts.output)


def _arithmetic(spec: Known) -> Arithmetic | None:
    """Return a spec as arithmetic of floats, or None where it is none."""
    if isinstance(spec, Rescale):
        is_clamp = spec.x == spec.y == "float32" and not spec.leaky
        return Arithmetic(function="identity", dims=spec.dims, clamped=True) if is_clamp else None
    if isinstance(spec, Binary):
        if {spec.a, spec.b, spec.y} != {"float32"}:
            return None
        return Arithmetic(
            function=spec.operator, dims=spec.a_shape, b_dims=spec.b_shape, clamped=True
        )
    return Arithmetic(function="gelu" if isinstance(spec, Gelu) else "sigmoid", dims=spec.dims)


def computes(dims: Shape, b_dims: Shape) -> bool:
    """Say whether a kernel for all sizes takes operands of such shapes; sizes are known."""
    if not all(isinstance(size, int) for size in (*dims, *b_dims)):
        return False
    return not b_dims or b_dims == dims or _is_one(b_dims) or _is_channel(dims, b_dims)


def _is_one(b_dims: Shape) -> bool:
    return bool(b_dims) and all(size == 1 for size in b_dims)


def _is_channel(dims: Shape, b_dims: Shape) -> bool:
    rank = len(dims)
    return rank > 1 and dims[0] == 1 and b_dims == (1, dims[1], *(1,) * (rank - 2))


def _is_open(spec: Arithmetic, layout: Layout) -> bool:
    is_image = layout == NCHW16C and spec.dims[0] == 1
    return computes(spec.dims, spec.b_dims) and (layout == ROW or is_image)


def _layouts(spec: Arithmetic, wanted: Layouts) -> Layouts:
    """Take x as it comes, where it is row major or one image in blocks of 16; b likewise."""
    layout = wanted.inputs[0] if _is_open(spec, wanted.inputs[0]) else ROW
    second = ROW if len(spec.b_dims) < len(spec.dims) else layout
    return Layouts(inputs=(layout, second)[: len(spec.tensors)], output=layout)


def general(spec: Arithmetic, layouts: Layouts) -> tuple[Arithmetic, Layouts]:
    """Return the kernel for tensors of any size, in the same memory."""
    rows = Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW)
    return _general(spec, layouts.output), rows


def _general(spec: Arithmetic, layout: Layout) -> Arithmetic:
    sizes = [tirx.Var(f"size{axis}", "int64") for axis in range(len(spec.dims))]
    dims: Shape = tuple(sizes) if layout == ROW else (1, *sizes[1:], LANES)
    return replace(spec, dims=dims, b_dims=_b_dims(spec, dims, layout), blocked=layout != ROW)


def _b_dims(spec: Arithmetic, dims: Shape, layout: Layout) -> Shape:
    """Return the shape of b in memory, in the sizes of x."""
    if not spec.b_dims or spec.b_dims == spec.dims:
        return dims if spec.b_dims else ()
    if _is_one(spec.b_dims):
        return spec.b_dims if layout == ROW or len(spec.b_dims) < 4 else (1, 1, 1, 1, LANES)
    rest = (1,) * (len(spec.dims) - 2)
    return (1, dims[1], *rest) if layout == ROW else (1, dims[1], 1, 1, LANES)


def kernel(spec: Arithmetic, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel of a spec that :func:`general` gave."""
    constants = {"clamp": ((2,), "float32"), LAST: ((1,), "int32")}
    shapes: dict[str, Any] = {
        **{name: (spec.shape(name), "float32") for name in spec.tensors},
        **{name: constants[name] for name in spec.params},
        "y": (spec.dims, "float32"),
    }
    loops = _loops(spec)
    with prim_func() as builder:
        buffers = declare_arguments(shapes)
        with T.sblock("root"), T.serial(T.int64(0), loops.outer) as loop, T.sblock("elements"):
            (outer,) = axes("outer", [loops.outer], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            _emit(spec, buffers, loops, outer)
    return builder.get()


@dataclass(frozen=True)
class _Loops:
    """Loops of a kernel: what is parallel, and what of it begins and ends where."""

    outer: Any
    begin: Callable[[Any], Any]
    lanes: int

    def count(self, outer: Any) -> Any:
        """Return how many positions ``outer`` has."""
        return self.begin(outer + 1) - self.begin(outer)


def _loops(spec: Arithmetic) -> _Loops:
    sizes: tuple[Any, ...] = spec.dims
    if spec.blocked:
        return _Loops(sizes[1], lambda block: block * (sizes[2] * sizes[3]), LANES)
    if _kind_of_b(spec) == "channel":
        return _Loops(sizes[1], lambda channel: channel * math.prod(sizes[2:]), 1)
    total = math.prod(sizes)
    return _Loops(T.int64(TASKS), lambda task: task * total // TASKS, 1)


def _emit(spec: Arithmetic, buffers: dict[str, Any], loops: _Loops, outer: Expr) -> None:
    x, y = flat(buffers["x"]), flat(buffers["y"])
    b = flat(buffers["b"]) if "b" in buffers else None
    begin = loops.begin(outer)
    with T.serial(T.int64(0), loops.count(outer)) as position:
        if loops.lanes == 1:
            index = begin + position
            T.buffer_store(y, _value(spec, buffers, x, b, index, outer), [index])
            return
        with T.vectorized(T.int64(0), T.int64(LANES)) as lane:
            index = (begin + position) * LANES + lane
            value = _value(spec, buffers, x, b, index, outer * LANES + lane)
            is_whole, last = outer < loops.outer - 1, buffers[LAST][0].astype("int64")
            count = tirx.Select(is_whole, T.int64(LANES), last)
            kept = tirx.Select(lane < count, value, tirx.const(0, "float32"))
            T.buffer_store(y, kept, [index])


def _value(
    spec: Arithmetic, buffers: dict[str, Any], x: Any, b: Any, index: Expr, channel: Expr
) -> Expr:
    """Return one element of y."""
    operands = [x[index]] if b is None else [x[index], b[_b_index(spec, index, channel)]]
    if spec.function == "clip":
        low, high = buffers["clamp"][0], buffers["clamp"][1]
        return tirx.max(tirx.min(operands[0], high), low)
    value = _FUNCTIONS[spec.function](*operands)
    if not spec.clamped:
        return value
    return clamp(value, (buffers["clamp"][0], buffers["clamp"][1]))


def _kind_of_b(spec: Arithmetic) -> str:
    """Return which element of b one of x meets: the same, that of its channel, the only one."""
    if not any(isinstance(size, tirx.Var) for size in spec.b_dims):
        return "one"
    variables = sum(isinstance(size, tirx.Var) for size in spec.b_dims)
    all_variables = sum(isinstance(size, tirx.Var) for size in spec.dims)
    return "same" if variables == all_variables else "channel"


def _b_index(spec: Arithmetic, index: Expr, channel: Expr) -> Any:
    return {"same": index, "channel": channel, "one": 0}[_kind_of_b(spec)]


_FUNCTIONS: dict[str, Callable[..., Expr]] = {
    **FLOAT_OPERATORS,
    "identity": lambda x: x,
    "negative": lambda x: -x,
    "sub": lambda a, b: a - b,
    "rsub": lambda a, b: b - a,
    "sigmoid": sigmoid,
    "gelu": gelu,
}


ARITHMETIC_CPU = ScheduleTemplate(
    name=NAME,
    kind="arithmetic",
    refuses=lambda spec, target: refuses_cpu(target),
    layouts=_layouts,
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
    general=general,
)
