"""Kernels that take any layout, on a GPU: the bodies with the loops of ``elementwise``."""

from __future__ import annotations

from schedules.bodies.bilinear import BILINEAR
from schedules.bodies.binary import BINARY
from schedules.bodies.bound import BOUND
from schedules.bodies.concat import CONCAT
from schedules.bodies.dequantize import DEQUANTIZE
from schedules.bodies.functions import GELU, SIGMOID
from schedules.bodies.interpolate import INTERPOLATE
from schedules.bodies.move import MOVE
from schedules.bodies.pool2d import POOL2D
from schedules.bodies.quantize import QUANTIZE
from schedules.bodies.rescale import RESCALE
from schedules.bodies.table import TABLE
from schedules.cuda.elementwise import on_cuda

POOL2D_CUDA = on_cuda(POOL2D)
BILINEAR_CUDA = on_cuda(BILINEAR)
BINARY_CUDA = on_cuda(BINARY)
BOUND_CUDA = on_cuda(BOUND)
RESCALE_CUDA = on_cuda(RESCALE)
TABLE_CUDA = on_cuda(TABLE)
QUANTIZE_CUDA = on_cuda(QUANTIZE)
DEQUANTIZE_CUDA = on_cuda(DEQUANTIZE)
CONCAT_CUDA = on_cuda(CONCAT)
MOVE_CUDA = on_cuda(MOVE)
SIGMOID_CUDA = on_cuda(SIGMOID)
GELU_CUDA = on_cuda(GELU)
INTERPOLATE_CUDA = on_cuda(INTERPOLATE)
