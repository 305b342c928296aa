"""The names of requantization modes. Imports nothing: settings and commands use them too."""

from __future__ import annotations

from typing import Literal, get_args

Rounding = Literal["gemmlowp", "tflite", "tpu-mlir"]
Requantize = Literal["float", "gemmlowp", "tflite", "tpu-mlir"]
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)
"""Those of fixed-point arithmetic (``schedules.reference.exact.shift_right``)."""
REQUANTIZE: tuple[Requantize, ...] = get_args(Requantize)
"""The same, and float32 multipliers."""
