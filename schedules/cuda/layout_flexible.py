"""Kernels that take any layout, on a GPU: those of ``schedules.cpu`` with other loops."""

from __future__ import annotations

from schedules.cpu.binary import BINARY_CPU
from schedules.cpu.bound import BOUND_CPU
from schedules.cpu.concat import CONCAT_CPU
from schedules.cpu.dequantize import DEQUANTIZE_CPU
from schedules.cpu.interpolate import INTERPOLATE_CPU
from schedules.cpu.move import MOVE_CPU
from schedules.cpu.pool2d import POOL2D_CPU
from schedules.cpu.quantize import QUANTIZE_CPU
from schedules.cpu.rescale import RESCALE_CPU
from schedules.cpu.sigmoid import SIGMOID_CPU
from schedules.cpu.table import TABLE_CPU
from schedules.cuda.elementwise import on_cuda

POOL2D_CUDA = on_cuda(POOL2D_CPU)
BINARY_CUDA = on_cuda(BINARY_CPU)
BOUND_CUDA = on_cuda(BOUND_CPU)
RESCALE_CUDA = on_cuda(RESCALE_CPU)
TABLE_CUDA = on_cuda(TABLE_CPU)
QUANTIZE_CUDA = on_cuda(QUANTIZE_CPU)
DEQUANTIZE_CUDA = on_cuda(DEQUANTIZE_CPU)
CONCAT_CUDA = on_cuda(CONCAT_CPU)
MOVE_CUDA = on_cuda(MOVE_CPU)
SIGMOID_CUDA = on_cuda(SIGMOID_CPU)
INTERPOLATE_CUDA = on_cuda(INTERPOLATE_CPU)
