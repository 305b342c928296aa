"""Moves in registers give NumPy's elements under qemu: Neon interleaves and joins as x86 does."""

from types import SimpleNamespace

import numpy as np
import tvm
from tvm import relax
from tvm.s_tir import Schedule

from schedules.cpu.moves.exchange import matrices
from schedules.cpu.moves.joined_blocks import pieces
from schedules.cpu.moves.move import MOVE_CPU
from schedules.layout import NCHW16C, ROW, Layout
from schedules.reference.kernels import reference
from schedules.spec import Move
from schedules.template import Layouts
from tests.aarch64.kernel_runs import TARGET
from tests.schedules.any_layout_runs import in_memory, random_tensors
from tests.schedules.test_move import channels

IMAGE, ROWS = (2, 21, 8, 9), (2, 70, 33)
CASES = [
    (move, layouts)
    for dtype in ("uint8", "float32")
    for move, layouts in (
        (Move(move="copy", x_shape=IMAGE, y_shape=IMAGE, x=dtype), (NCHW16C, ROW)),
        (Move(move="copy", x_shape=IMAGE, y_shape=IMAGE, x=dtype), (ROW, NCHW16C)),
        (
            Move(move="transpose", x_shape=ROWS, y_shape=(2, 33, 70), arguments=(0, 2, 1), x=dtype),
            (ROW, ROW),
        ),
        (channels(60, 26, 26, dtype), (NCHW16C, NCHW16C)),
    )
]


def _call(
    builder: relax.BlockBuilder, x: relax.Var, spec: Move, memory: tuple[Layout, Layout]
) -> relax.Call:
    source, output = memory
    layouts = Layouts(inputs=(source,), output=output)
    assert matrices(spec, layouts) is not None or pieces(spec, layouts)
    sch = Schedule(MOVE_CPU.kernel(spec, layouts))
    MOVE_CPU.default(sch, spec, TARGET)
    kernel = builder.add_func(MOVE_CPU.finish(sch.mod["main"]), "move")
    out = relax.TensorType(output.physical_shape(spec.y_shape), spec.x)
    return relax.call_tir(kernel, [x], out_ty=out)


def test_elements(emulator):
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"x{i}", relax.TensorType(source.physical_shape(spec.x_shape), spec.x))
        for i, (spec, (source, _)) in enumerate(CASES)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            moved = [
                builder.emit(_call(builder, x, *case))
                for x, case in zip(params, CASES, strict=True)
            ]
            y = builder.emit_output(relax.Tuple(moved))
        builder.emit_func_output(y)
    network = SimpleNamespace(executable=tvm.compile(builder.get(), target=TARGET))
    tensors = [random_tensors(spec) for spec, _ in CASES]
    inputs = [in_memory(t["x"], source) for t, (_, (source, _)) in zip(tensors, CASES, strict=True)]
    for found, given, (spec, (_, output)) in zip(
        emulator.run(network, inputs), tensors, CASES, strict=True
    ):
        expected = reference(spec, given, {})
        np.testing.assert_array_equal(output.unpack(found, expected.shape), expected)
