"""Make images of any size row major, integers dequantized: what a comparison of layers reads.

    x : (1, c/16, h, w, 16)     NCHW16c
    y : (1, c, h, w), or in NCHW16c
    s float32 (1,), z int32 (1,)    where x is dequantized

Loops after scheduling (p parallel):

    p:block  lane  position     row major; lanes past the last channel left out
    p:block  position  v:lane   NCHW16c; these lanes zero

Exact:  bit-identical to a dequantize or a copy that knows its sizes.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import declare_arguments, flat, whole
from schedules.bodies.expressions import centred
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_cpu
from schedules.cpu.outermost import share_outermost
from schedules.layout import NCHW16C, ROW
from schedules.spec import Dequantize, Move, OpenUnpack
from schedules.template import Layouts, ScheduleTemplate

NAME = "unpack_open"
LANES = NCHW16C.block


def opened(spec: Move | Dequantize, layouts: Layouts) -> OpenUnpack | None:
    """Return the kernel for all sizes that computes ``spec``, or None where there is none."""
    is_packed = isinstance(spec, Dequantize) and layouts.output == NCHW16C
    if layouts.inputs != (NCHW16C,) or not (is_packed or layouts.output == ROW):
        return None
    batch = spec.shape("x")[0]
    is_copy = isinstance(spec, Dequantize) or spec.move == "copy"
    if not is_copy or not isinstance(batch, int) or batch > 1:
        return None
    blocks, height, width, channels = (
        tirx.Var(name, "int64") for name in ("blocks", "height", "width", "channels")
    )
    return OpenUnpack(
        x_shape=(blocks, height, width),
        channels=() if is_packed else (channels,),
        last_channels=(spec.shape("x")[1] - 1) % LANES + 1 if is_packed else 0,
        x=spec.x,
        y="float32" if isinstance(spec, Dequantize) else spec.x,
    )


def kernel(spec: OpenUnpack, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    constants = {"s": ((1,), "float32"), "z": ((1,), "int32")}
    shapes: dict[str, Any] = {
        "x": (spec.shape("x"), spec.x),
        **{name: constants[name] for name in spec.params},
        "y": (spec.shape("y"), spec.y),
    }
    sizes: tuple[Any, ...] = spec.x_shape
    blocks, positions = sizes[0], sizes[1] * sizes[2]
    with prim_func() as builder:
        buffers = declare_arguments(shapes)
        with T.sblock("root"), T.serial(T.int64(0), blocks) as loop, T.sblock("unpack"):
            (block,) = axes("block", [blocks], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            (_row_major if spec.channels else _packed)(spec, buffers, block, positions)
    return builder.get()


def _row_major(spec: OpenUnpack, buffers: dict[str, Any], block: Expr, positions: Expr) -> None:
    x, y, (channels,) = flat(buffers["x"]), flat(buffers["y"]), spec.channels
    with T.serial(T.int64(0), T.int64(LANES)) as lane:
        channel = block * LANES + lane
        with T.If(channel < channels), T.Then(), T.serial(T.int64(0), positions) as position:
            value = _value(spec, buffers, x[(block * positions + position) * LANES + lane])
            T.buffer_store(y, value, [channel * positions + position])


def _packed(spec: OpenUnpack, buffers: dict[str, Any], block: Expr, positions: Expr) -> None:
    x, y = flat(buffers["x"]), flat(buffers["y"])
    last, zero = T.int64(spec.last_channels), tirx.const(0, spec.y)
    count = tirx.Select(block < spec.x_shape[0] - 1, T.int64(LANES), last)
    lanes = T.vectorized(T.int64(0), T.int64(LANES))
    with T.serial(T.int64(0), positions) as position, lanes as lane:
        index = (block * positions + position) * LANES + lane
        value = tirx.Select(lane < count, _value(spec, buffers, x[index]), zero)
        T.buffer_store(y, value, [index])


def _value(spec: OpenUnpack, buffers: dict[str, Any], x: Expr) -> Expr:
    if not spec.params:
        return x
    value: Expr = centred(x, buffers["z"][0]).astype("float32") * buffers["s"][0]
    return value


UNPACK_OPEN = ScheduleTemplate(
    name=NAME,
    kind="open_unpack",
    refuses=lambda spec, target: refuses_cpu(target),
    layouts=lambda spec, wanted: Layouts(inputs=(ROW,), output=ROW),
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
)
