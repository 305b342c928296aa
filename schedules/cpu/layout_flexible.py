"""Kernels that take any layout, on a CPU: the bodies with the loops of ``elementwise``."""

from __future__ import annotations

from schedules.bodies.binary import BINARY
from schedules.bodies.bound import BOUND
from schedules.bodies.dequantize import DEQUANTIZE
from schedules.bodies.functions import GELU, SIGMOID
from schedules.bodies.interpolate import INTERPOLATE
from schedules.bodies.quantize import QUANTIZE
from schedules.bodies.rescale import RESCALE
from schedules.bodies.table import TABLE
from schedules.cpu.elementwise import on_cpu

BINARY_CPU = on_cpu(BINARY)
BOUND_CPU = on_cpu(BOUND)
RESCALE_CPU = on_cpu(RESCALE)
TABLE_CPU = on_cpu(TABLE)
QUANTIZE_CPU = on_cpu(QUANTIZE)
DEQUANTIZE_CPU = on_cpu(DEQUANTIZE)
SIGMOID_CPU = on_cpu(SIGMOID)
GELU_CPU = on_cpu(GELU)
INTERPOLATE_CPU = on_cpu(INTERPOLATE)
