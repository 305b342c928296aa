"""Examples in docstrings are true."""

import doctest
import inspect
from functools import partial
from importlib import import_module

import pytest

import relay_int8
from tests.docs.pages import ROOT, steps

ALONE = (
    "relay_int8.api.demand",
    "relay_int8.data.dataset",
    "relay_int8.data.natural_order",
    "relay_int8.data.preprocessing",
    "relay_int8.data.tensor_info",
    "relay_int8.frontend.importing",
    "relay_int8.messages",
    "relay_int8.quantization.config",
    "relay_int8.remote.address",
    "relay_int8.report.html_table",
)
IN_ORDER = (
    "relay_int8.api.model",
    "relay_int8.api.preview",
    "relay_int8.api.quantize",
    "relay_int8.api.build",
    "relay_int8.api.measure",
    "relay_int8.runtime.artifact",
    "relay_int8.runtime.streams",
    "relay_int8.api.profile",
    "relay_int8.api.float_network",
    "relay_int8.report.accuracy",
    "relay_int8.api.tables",
    "relay_int8.api.tune",
    "relay_int8.api.calibrate",
    "relay_int8.api.export",
    "relay_int8.api.rest",
    "relay_int8.api.compile",
    "relay_int8.frontend.onnx",
    "relay_int8.errors",
)
"""Those of the public functions follow each other, and the first lines of their page."""
PAGE = ROOT / "docs" / "reference" / "python.md"
WITHOUT = {
    "__version__",
    "Budget",  # of analyze_layers
    "CalibrationTable",  # of read_table
    "Deployment",  # of deploy
    "KernelCheck",  # of deploy
    "KernelDifference",  # of deploy
    "KernelTime",  # of profile
    "KernelToTune",  # of find_kernels
    "LayerAnalysis",  # of analyze_layers
    "Manifest",  # of read_manifest
    "NetworkKernels",  # of find_kernels
    "OperatorModes",  # of read_qtable
    "Progress",  # a type of functions
    "ServeOptions",
    "TableComparison",
    "TableConversion",
    "TableFile",  # of functions of tables
    "Timing",
    "TrialListener",
    "TrialProgress",  # of tune
    "TunedKernel",
    "TuningLog",  # of read_tuning_logs
    "Endpoint",  # of deploy and tune
    "Evaluation",  # of evaluate
    "ImageLabels",
    "Metric",  # of quantize
    "Module",  # of load
    "TuneOptions",
    "analyze_layers",  # a minute
    "deploy",  # needs a device
    "import_mxnet",
    "import_tflite",
    "import_torch",  # as import_onnx
    "merge_tuning_logs",
    "open_pictures",  # needs pictures
    "plot_layers",  # Matplotlib
    "plot_tensor",
    "prune_tuning_logs",
    "random_inputs",
    "read_labels",
    "read_masks",
    "read_qtable",
    "read_tuning_logs",  # needs a log
    "render_report",  # Plotly
    "serve",  # ends at Ctrl-C
    "write_tuning_page",
    "tune",  # minutes
}
"""Public names whose docstrings have no example, and why."""


@pytest.mark.fast
@pytest.mark.parametrize("name", ALONE)
def test_examples(name):
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed


def test_examples_of_the_public_functions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(next(step.text for step in steps(PAGE) if step.kind == "python"), names)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for module in IN_ORDER:
        tests = doctest.DocTestFinder().find(import_module(module))
        shown = sorted((each for each in tests if each.examples), key=partial(_line, module))
        for test in shown:
            test.globs = names
            runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False) == doctest.TestResults(0, runner.tries)


def _line(module: str, test: doctest.DocTest) -> int:
    """Return where what an example is of stands: doctest does not look through decorators."""
    found = import_module(module)
    for name in test.name.removeprefix(module).split(".")[1:]:
        found = getattr(found, name)
    return inspect.getsourcelines(inspect.unwrap(found))[1]


@pytest.mark.fast
def test_all_modules_with_examples_are_listed(pytestconfig):
    package = pytestconfig.rootpath / "relay_int8"
    found = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
        for path in package.rglob("*.py")
        if "\n    >>> " in path.read_text(encoding="utf-8") or "\n        >>> " in path.read_text()
    }
    assert found == {*ALONE, *IN_ORDER}


@pytest.mark.fast
def test_public_names_have_examples():
    """Their own, or those of a stage that takes or gives them."""
    shown = "".join(
        test.docstring
        for module in (*IN_ORDER, *ALONE)
        for test in doctest.DocTestFinder().find(import_module(module))
        if test.examples
    )
    assert {name for name in relay_int8.__all__ if name not in shown} <= WITHOUT
