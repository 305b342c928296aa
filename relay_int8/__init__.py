"""INT8 post-training quantization, tensorized kernels and autotuning for Apache TVM.

The public names are loaded when they are first used, so that :func:`load` runs an artifact
without importing the compiler.
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
    from relay_int8.api.labels import read_labels, read_masks
    from relay_int8.api.measure import measure
    from relay_int8.api.model import Model, load_model
    from relay_int8.api.preview import preview
    from relay_int8.api.profile import profile
    from relay_int8.api.quantize import Quantized, quantize
    from relay_int8.api.render import plot_layers, plot_tensor, render_report
    from relay_int8.api.rest import export_rest
    from relay_int8.api.sensitivity import LayerAnalysis, analyze_layers
    from relay_int8.api.tables import (
        OperatorModes,
        TableComparison,
        TableConversion,
        TableFile,
        compare_tables,
        convert_table,
        read_qtable,
        read_table,
    )
    from relay_int8.api.tune import KernelToTune, NetworkKernels, find_kernels, tune
    from relay_int8.api.tuning_logs import (
        TunedKernel,
        TuningLog,
        merge_tuning_logs,
        prune_tuning_logs,
        read_tuning_logs,
    )
    from relay_int8.calibration.observe import Progress
    from relay_int8.calibration.table import CalibrationTable
    from relay_int8.data.dataset import open_data
    from relay_int8.data.images import open_pictures
    from relay_int8.data.preprocessing import Preprocessing
    from relay_int8.errors import Int8Error
    from relay_int8.frontend.mxnet import import_mxnet
    from relay_int8.frontend.onnx import import_onnx
    from relay_int8.frontend.options import ImportOptions
    from relay_int8.frontend.tflite import import_tflite
    from relay_int8.frontend.torch import import_torch
    from relay_int8.quantization.config import QuantConfig
    from relay_int8.quantization.metric import ImageLabels, Metric
    from relay_int8.quantization.mixed_precision.choice import Budget
    from relay_int8.remote.address import Address, Endpoint
    from relay_int8.remote.deploy import Deployment, deploy
    from relay_int8.remote.kernel_check import KernelCheck, KernelDifference
    from relay_int8.remote.supervisor import ServeOptions, serve
    from relay_int8.report.accuracy import Evaluation, evaluate
    from relay_int8.report.contents import Report
    from relay_int8.report.profile import KernelTime, Profile
    from relay_int8.report.tuning_page import write_tuning_page
    from relay_int8.runtime.artifact import load, read_manifest
    from relay_int8.runtime.manifest import Manifest
    from relay_int8.runtime.module import Module
    from relay_int8.runtime.profiling import random_inputs
    from relay_int8.runtime.streams import Streams
    from relay_int8.tuning.batch import Timing
    from relay_int8.tuning.session import TuneOptions
    from relay_int8.tuning.tuner import TrialListener, TrialProgress

__all__ = [
    "Address",
    "Artifact",
    "Budget",
    "BuildOptions",
    "CalibrationTable",
    "Demand",
    "Deployment",
    "Endpoint",
    "Evaluation",
    "ImageLabels",
    "ImportOptions",
    "Int8Error",
    "KernelCheck",
    "KernelDifference",
    "KernelTime",
    "KernelToTune",
    "LayerAnalysis",
    "Manifest",
    "Metric",
    "Model",
    "Module",
    "NetworkKernels",
    "OperatorModes",
    "Preprocessing",
    "Profile",
    "Progress",
    "QuantConfig",
    "Quantized",
    "Report",
    "ServeOptions",
    "Streams",
    "TableComparison",
    "TableConversion",
    "TableFile",
    "Timing",
    "TrialListener",
    "TrialProgress",
    "TuneOptions",
    "TunedKernel",
    "TuningLog",
    "__version__",
    "analyze_layers",
    "build",
    "calibrate_model",
    "compare_tables",
    "compile_model",
    "convert_table",
    "deploy",
    "evaluate",
    "export_model",
    "export_rest",
    "find_kernels",
    "float_network",
    "import_mxnet",
    "import_onnx",
    "import_tflite",
    "import_torch",
    "load",
    "load_model",
    "measure",
    "merge_tuning_logs",
    "open_data",
    "open_pictures",
    "plot_layers",
    "plot_tensor",
    "preview",
    "profile",
    "prune_tuning_logs",
    "quantize",
    "random_inputs",
    "read_labels",
    "read_manifest",
    "read_masks",
    "read_qtable",
    "read_table",
    "read_tuning_logs",
    "render_report",
    "serve",
    "tune",
    "write_tuning_page",
]

_HOMES = {
    "Address": "remote.address",
    "Artifact": "api.build",
    "Budget": "quantization.mixed_precision.choice",
    "BuildOptions": "api.build",
    "CalibrationTable": "calibration.table",
    "Demand": "api.demand",
    "Deployment": "remote.deploy",
    "Endpoint": "remote.address",
    "Evaluation": "report.accuracy",
    "ImageLabels": "quantization.metric",
    "ImportOptions": "frontend.options",
    "Int8Error": "errors",
    "KernelCheck": "remote.kernel_check",
    "KernelDifference": "remote.kernel_check",
    "KernelTime": "report.profile",
    "KernelToTune": "api.tune",
    "LayerAnalysis": "api.sensitivity",
    "Manifest": "runtime.manifest",
    "Metric": "quantization.metric",
    "Model": "api.model",
    "Module": "runtime.module",
    "NetworkKernels": "api.tune",
    "OperatorModes": "api.tables",
    "Preprocessing": "data.preprocessing",
    "Profile": "report.profile",
    "Progress": "calibration.observe",
    "QuantConfig": "quantization.config",
    "Quantized": "api.quantize",
    "Report": "report.contents",
    "ServeOptions": "remote.supervisor",
    "Streams": "runtime.streams",
    "TableComparison": "api.tables",
    "TableConversion": "api.tables",
    "TableFile": "api.tables",
    "Timing": "tuning.batch",
    "TrialListener": "tuning.tuner",
    "TrialProgress": "tuning.tuner",
    "TuneOptions": "tuning.session",
    "TunedKernel": "api.tuning_logs",
    "TuningLog": "api.tuning_logs",
    "analyze_layers": "api.sensitivity",
    "build": "api.build",
    "calibrate_model": "api.calibrate",
    "compare_tables": "api.tables",
    "compile_model": "api.compile",
    "convert_table": "api.tables",
    "deploy": "remote.deploy",
    "evaluate": "report.accuracy",
    "export_model": "api.export",
    "export_rest": "api.rest",
    "find_kernels": "api.tune",
    "float_network": "api.float_network",
    "import_mxnet": "frontend.mxnet",
    "import_onnx": "frontend.onnx",
    "import_tflite": "frontend.tflite",
    "import_torch": "frontend.torch",
    "load": "runtime.artifact",
    "load_model": "api.model",
    "measure": "api.measure",
    "merge_tuning_logs": "api.tuning_logs",
    "open_data": "data.dataset",
    "open_pictures": "data.images",
    "plot_layers": "api.render",
    "plot_tensor": "api.render",
    "preview": "api.preview",
    "profile": "api.profile",
    "prune_tuning_logs": "api.tuning_logs",
    "quantize": "api.quantize",
    "random_inputs": "runtime.profiling",
    "read_labels": "api.labels",
    "read_manifest": "runtime.artifact",
    "read_masks": "api.labels",
    "read_qtable": "api.tables",
    "read_table": "api.tables",
    "read_tuning_logs": "api.tuning_logs",
    "render_report": "api.render",
    "serve": "remote.supervisor",
    "tune": "api.tune",
    "write_tuning_page": "report.tuning_page",
}


def __dir__() -> list[str]:
    """Return the public names, for completion, without importing what they name."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the module that holds public name ``name``."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
