"""What the switches of ``schedules.cuda.dp4a.tiles`` do, seen in the generated CUDA C."""

import dataclasses
import re
from typing import Any

import tvm
from tvm.s_tir import Schedule

from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.default_tiles import default_tiles
from schedules.cuda.dp4a.loops import apply, reduction_slices
from schedules.layout import NCHW4C, NCHW32C, Layout
from schedules.spec import Conv2d
from schedules.template import Layouts
from tests.cuda.emulator import cuda_source
from tests.cuda.run_template import SM_80

LARGE: dict[str, Any] = {
    "batch": 4, "in_channels": 256, "height": 28, "width": 28, "out_channels": 64,
    "kernel": (1, 1), "x": "uint8", "y": "uint8",
}  # fmt: skip


def code(layout: Layout = NCHW4C, **switches: Any) -> str:
    """Return the kernel of a layer with default tiles but for ``switches``."""
    spec = Conv2d(**LARGE)
    layouts = Layouts(inputs=(layout,), output=layout)
    func = CONV2D_DP4A.kernel(spec, layouts).with_attr("global_symbol", "conv")
    sch = Schedule(tvm.IRModule({"main": func}))
    apply(sch, dataclasses.replace(default_tiles(sch, spec, SM_80), **switches))
    mod = tvm.IRModule({"conv": CONV2D_DP4A.finish(sch.mod["main"])})
    return cuda_source(mod, SM_80).split("conv_kernel(")[-1]


def shared_bytes(text: str) -> dict[str, int]:
    """Return the bytes of each shared array."""
    sizes = {"int": 4, "uint": 4, "int4": 16, "uint4": 16, "signed char": 1, "uchar": 1}
    found = re.findall(r"__shared__ alignas\(64\) ([\w ]+?) (\w+)_shared_ptr\[(\d+)\]", text)
    return {name: sizes[kind] * int(count) for kind, name, count in found}


def test_each_array_is_double_buffered_by_itself():
    single = shared_bytes(code(pipeline=0))
    for pipeline, factors in {1: (2, 2), 2: (2, 1), 3: (1, 2)}.items():
        double = shared_bytes(code(pipeline=pipeline))
        assert (double["staged"], double["w"]) == (
            factors[0] * single["staged"],
            factors[1] * single["w"],
        ), pipeline


def test_sixteen_bytes_are_fetched_at_once_where_they_are_neighbours():
    assert "(uint4*)(staged_shared_ptr" in code() or "uint4 staged_shared_ptr" in code()
    assert "uint4" not in code(wide=False)
    assert "uint4" not in code(layout=NCHW32C)


def test_rows_are_padded():
    padded, tight = shared_bytes(code(padded=True)), shared_bytes(code(padded=False))
    assert padded["staged"] > tight["staged"] and padded["w"] > tight["w"]


def test_weights_may_skip_shared_memory():
    assert "w" not in shared_bytes(code(w_shared=False))


def test_small_images_split_the_reduction():
    for size, slices in ((28, 1), (7, 8)):
        spec = Conv2d(**(LARGE | {"height": size, "width": size}))
        layouts = Layouts(inputs=(NCHW4C,), output=NCHW4C)
        assert reduction_slices(Schedule(CONV2D_DP4A.kernel(spec, layouts))) == slices
