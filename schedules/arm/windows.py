"""Depthwise and small-group convolutions on Arm dot products: sdot on int8, usdot on uint8.

    x : (n, c/16, h, w, 16)       int8 for sdot, uint8 for usdot
    w : (c/16, vectors, 16 * 4)   int8, the four taps or channels of a lane side by side

As on VNNI, four registers for each vector: see ``schedules.cpu.windows.depthwise``, ``grouped``.
"""

from __future__ import annotations

from functools import partial

from tvm import tirx
from tvm.tirx import Expr

from schedules.arm.dots import QUAD, SDOT, USDOT
from schedules.cpu.lanes import Lanes
from schedules.cpu.windows.depthwise import depthwise_template
from schedules.cpu.windows.grouped import grouped_template


def _step(instruction: str, acc: Expr, x: Expr, w: Expr) -> Expr:
    """Return one register of four lanes, ``acc``, plus four products each."""
    return tirx.call_llvm_pure_intrin(
        f"int32x{QUAD}",
        f"llvm.aarch64.neon.{instruction}",
        acc,
        tirx.reinterpret("int8x16", x),
        w,
    )


SDOT_LANES = Lanes(dot=SDOT, step=partial(_step, "sdot"), weights="int8", parts=4)
USDOT_LANES = Lanes(dot=USDOT, step=partial(_step, "usdot"), weights="int8", parts=4)
DEPTHWISE_SDOT = depthwise_template(SDOT_LANES)
DEPTHWISE_USDOT = depthwise_template(USDOT_LANES)
GROUPED_SDOT = grouped_template(SDOT_LANES)
GROUPED_USDOT = grouped_template(USDOT_LANES)
