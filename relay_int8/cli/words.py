"""Names and defaults that help pages show, without importing the modules that define them.

Those import NumPy and TVM, which takes seconds; the tests hold the two together.
"""

from __future__ import annotations

from typing import Literal

AUTO = "auto"
PRESETS = ("int8", "int8-symmetric", "int8-asymmetric", "int8-accurate", AUTO)
PRESET = "int8-asymmetric"
METHODS = (
    "max",
    "moving-average",
    "percentile",
    "mse",
    "mse-affine",
    "octav",
    "aciq-gauss",
    "aciq-laplace",
    "kl-tensorrt",
    "kl-pytorch-quantization",
    "kl-mxnet",
    "kl-ncnn",
    "kl-tpu-mlir",
    "kl-ppq",
    "kl-tensorrt-onepass",
    "percentile-onepass",
    "mse-onepass",
)
METHOD = "mse-affine"
"""The default, as PRESET is."""
METRICS = ("top-1", "mean-iou", "agreement")
"""Of quantize --metric."""
FORMATS = (
    "relay-int8",
    "tensorrt",
    "tpu-mlir",
    "ncnn",
    "aimet",
    "onnxruntime",
    "ranges",
    "onnxruntime-text",
)
"""Of calibration tables."""
PREPARATIONS = ("imagenet", "imagenet-signed", "unit", "raw")
Rounding = Literal["gemmlowp", "tflite", "tpu-mlir"]
Requantize = Literal["float", "gemmlowp", "tflite", "tpu-mlir"]
ROUNDINGS: tuple[Rounding, ...] = ("gemmlowp", "tflite", "tpu-mlir")
"""Those of --requantize fixed."""
