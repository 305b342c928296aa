"""Kernels that take any layout, on a CPU: the bodies with the loops of ``elementwise``.

Quantize and dequantize do not change layouts themselves if a move of the bytes can do it by tiles
in registers (``schedules.cpu.moves.transposition``): both together take less time than gathering
single elements (decision 102).
"""

from __future__ import annotations

from dataclasses import replace

from schedules.bodies.binary import BINARY
from schedules.bodies.bound import BOUND
from schedules.bodies.dequantize import DEQUANTIZE
from schedules.bodies.functions import GELU, SIGMOID
from schedules.bodies.interpolate import INTERPOLATE
from schedules.bodies.quantize import QUANTIZE
from schedules.bodies.rescale import RESCALE
from schedules.bodies.table import TABLE
from schedules.cpu.elementwise import on_cpu
from schedules.cpu.moves.exchange import is_copied_by_tiles
from schedules.spec import Dequantize, Quantize
from schedules.template import Layouts


def _quantize_layouts(spec: Quantize, wanted: Layouts) -> Layouts:
    layouts = QUANTIZE.layouts(spec, wanted)
    return replace(layouts, output=layouts.inputs[0]) if _tiled(spec, layouts) else layouts


def _dequantize_layouts(spec: Dequantize, wanted: Layouts) -> Layouts:
    layouts = DEQUANTIZE.layouts(spec, wanted)
    return replace(layouts, inputs=(layouts.output,)) if _tiled(spec, layouts) else layouts


def _tiled(spec: Quantize | Dequantize, layouts: Layouts) -> bool:
    """Whether bytes change between these layouts by tiles."""
    return is_copied_by_tiles(spec.dims, "uint8", layouts)


BINARY_CPU = on_cpu(BINARY)
BOUND_CPU = on_cpu(BOUND)
RESCALE_CPU = on_cpu(RESCALE)
TABLE_CPU = on_cpu(TABLE)
QUANTIZE_CPU = replace(on_cpu(QUANTIZE), layouts=_quantize_layouts)
DEQUANTIZE_CPU = replace(on_cpu(DEQUANTIZE), layouts=_dequantize_layouts)
SIGMOID_CPU = on_cpu(SIGMOID)
GELU_CPU = on_cpu(GELU)
INTERPOLATE_CPU = on_cpu(INTERPOLATE)
