"""Names and defaults that help pages show, without importing the modules that define them.

Those import NumPy and TVM, which takes seconds; the tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
TARGETS = ("native", "x86-vnni", "x86-avx2", "x86", "aarch64", "cuda")
"""Those that need no more words; architectures of GPUs and JSON are targets too."""
SEARCHES = ("xgb", "random", "grid")
PIXELS = ("nchw", "nhwc")
TOOLS = (
    *(f"equalization={value}" for value in ("none", "depthwise", "cross-layer", "smooth")),
    *(f"thresholds={value}" for value in ("method", "output-error")),
    *(f"correction={value}" for value in ("none", "analytic", "empirical")),
    *(f"rounding={value}" for value in ("nearest", "adaround", "descent")),
    *(f"functions={value}" for value in ("exact", "quick")),
    *(f"unify={value}" for value in ("yes", "no")),
)
Rounding = Literal["gemmlowp", "tflite", "tpu-mlir"]
Requantize = Literal["float", "gemmlowp", "tflite", "tpu-mlir"]
ROUNDINGS: tuple[Rounding, ...] = ("gemmlowp", "tflite", "tpu-mlir")
"""Those of --requantize fixed."""
REQUANTIZE = ("float", "fixed")
"""Of --requantize, which --rounding completes."""


def among(values: Iterable[str]) -> Callable[[], list[str]]:
    """Return what completes an option of a shell that has one of ``values``."""
    offered = list(values)
    return lambda: offered
