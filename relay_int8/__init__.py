"""INT8 post-training quantization, tensorized kernels and autotuning for Apache TVM.

The public names are loaded when they are first used, so that :func:`load` runs an artifact
without importing the compiler. The single stages are functions of modules that bear their names:
``relay_int8.quantization.quantize.quantize``, ``relay_int8.compiler.build.build``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from relay_int8.version import __version__

if TYPE_CHECKING:
    from relay_int8.api.build import Artifact, BuildOptions, build
    from relay_int8.api.calibrate import calibrate_model
    from relay_int8.api.compile import compile_model
    from relay_int8.api.demand import Demand
    from relay_int8.api.export import export_model
    from relay_int8.api.float_network import float_network
    from relay_int8.api.measure import measure
    from relay_int8.api.model import Model, load_model
    from relay_int8.api.preview import preview
    from relay_int8.api.quantize import Quantized, quantize
    from relay_int8.api.sensitivity import analyze_layers
    from relay_int8.api.tune import tune
    from relay_int8.calibration import Preprocessing, open_data
    from relay_int8.errors import Int8Error
    from relay_int8.frontend.mxnet import import_mxnet
    from relay_int8.frontend.onnx import import_onnx
    from relay_int8.frontend.options import ImportOptions
    from relay_int8.frontend.tflite import import_tflite
    from relay_int8.frontend.torch import import_torch
    from relay_int8.quantization.config import QuantConfig
    from relay_int8.remote.address import Endpoint
    from relay_int8.remote.deploy import deploy
    from relay_int8.report.accuracy import Evaluation, evaluate
    from relay_int8.report.contents import Report
    from relay_int8.runtime.artifact import load, read_manifest
    from relay_int8.runtime.module import Module
    from relay_int8.runtime.streams import Streams
    from relay_int8.tuning.session import TuneOptions

__all__ = [
    "Artifact",
    "BuildOptions",
    "Demand",
    "Endpoint",
    "Evaluation",
    "ImportOptions",
    "Int8Error",
    "Model",
    "Module",
    "Preprocessing",
    "QuantConfig",
    "Quantized",
    "Report",
    "Streams",
    "TuneOptions",
    "__version__",
    "analyze_layers",
    "build",
    "calibrate_model",
    "compile_model",
    "deploy",
    "evaluate",
    "export_model",
    "float_network",
    "import_mxnet",
    "import_onnx",
    "import_tflite",
    "import_torch",
    "load",
    "load_model",
    "measure",
    "open_data",
    "preview",
    "quantize",
    "read_manifest",
    "tune",
]

_HOMES = {
    "Endpoint": "remote.address",
    "Module": "runtime.module",
    "Artifact": "api.build",
    "BuildOptions": "api.build",
    "Demand": "api.demand",
    "Evaluation": "report.accuracy",
    "ImportOptions": "frontend.options",
    "Int8Error": "errors",
    "Model": "api.model",
    "Preprocessing": "calibration",
    "QuantConfig": "quantization.config",
    "Quantized": "api.quantize",
    "Report": "report.contents",
    "Streams": "runtime.streams",
    "TuneOptions": "tuning.session",
    "analyze_layers": "api.sensitivity",
    "build": "api.build",
    "calibrate_model": "api.calibrate",
    "compile_model": "api.compile",
    "deploy": "remote.deploy",
    "evaluate": "report.accuracy",
    "export_model": "api.export",
    "float_network": "api.float_network",
    "import_mxnet": "frontend.mxnet",
    "import_onnx": "frontend.onnx",
    "import_tflite": "frontend.tflite",
    "import_torch": "frontend.torch",
    "load": "runtime.artifact",
    "load_model": "api.model",
    "measure": "api.measure",
    "open_data": "calibration",
    "preview": "api.preview",
    "quantize": "api.quantize",
    "read_manifest": "runtime.artifact",
    "tune": "api.tune",
}


def __dir__() -> list[str]:
    """Return the public names, for completion, without importing what they name."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the module that holds public name ``name``."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
