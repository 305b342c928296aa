"""How a range is chosen from what was observed: one published method per file."""

from collections.abc import Mapping
from types import MappingProxyType

from relay_int8.calibration.methods.aciq import AciqGauss, AciqLaplace
from relay_int8.calibration.methods.base import Method
from relay_int8.calibration.methods.kl_mxnet import KlMxnet
from relay_int8.calibration.methods.kl_ncnn import KlNcnn
from relay_int8.calibration.methods.kl_ppq import KlPpq
from relay_int8.calibration.methods.kl_pytorch_quantization import KlPytorchQuantization
from relay_int8.calibration.methods.kl_tensorrt import KlTensorrt
from relay_int8.calibration.methods.kl_tpu_mlir import KlTpuMlir
from relay_int8.calibration.methods.max import Max
from relay_int8.calibration.methods.moving_average import MovingAverage
from relay_int8.calibration.methods.mse import Mse
from relay_int8.calibration.methods.mse_affine import MseAffine
from relay_int8.calibration.methods.octav import Octav
from relay_int8.calibration.methods.one_pass import (
    KlTensorrtOnePass,
    MseOnePass,
    PercentileOnePass,
)
from relay_int8.calibration.methods.percentile import Percentile
from relay_int8.errors import ConfigError

METHODS: Mapping[str, Method] = MappingProxyType(
    {
        method.name: method
        for method in (
            Max(),
            MovingAverage(),
            Percentile(),
            Mse(),
            MseAffine(),
            Octav(),
            AciqGauss(),
            AciqLaplace(),
            KlTensorrt(),
            KlPytorchQuantization(),
            KlMxnet(),
            KlNcnn(),
            KlTpuMlir(),
            KlPpq(),
            KlTensorrtOnePass(),
            PercentileOnePass(),
            MseOnePass(),
        )
    }
)
ALIASES: Mapping[str, str] = MappingProxyType({"kl": KlTensorrt.name})


def find_method(method: str | Method) -> Method:
    """Return the method of this name, or the method itself."""
    if not isinstance(method, str):
        return method
    name = ALIASES.get(method, method)
    if name not in METHODS:
        raise ConfigError(f"method {method!r} is unknown; choose one of {', '.join(METHODS)}")
    return METHODS[name]


__all__ = [
    "ALIASES",
    "METHODS",
    "AciqGauss",
    "AciqLaplace",
    "KlMxnet",
    "KlNcnn",
    "KlPpq",
    "KlPytorchQuantization",
    "KlTensorrt",
    "KlTensorrtOnePass",
    "KlTpuMlir",
    "Max",
    "Method",
    "MovingAverage",
    "Mse",
    "MseAffine",
    "MseOnePass",
    "Octav",
    "Percentile",
    "PercentileOnePass",
    "find_method",
]
