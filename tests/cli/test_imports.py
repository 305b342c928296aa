"""Help and usage errors come before NumPy and TVM are imported; the words they show are true."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import relay_int8
from relay_int8.api.metrics import METRICS
from relay_int8.calibration import METHODS
from relay_int8.calibration.formats import FORMATS
from relay_int8.cli import words
from relay_int8.cli.preprocess import PREPARATIONS
from relay_int8.quantization.config import PRESETS, SETTINGS, QuantConfig
from relay_int8.tuning.search import SEARCHES
from schedules.rounding import ROUNDINGS, Requantize
from schedules.targets import TARGETS

pytestmark = pytest.mark.fast

ROOT = Path(relay_int8.__file__).parents[1]
HEAVY = ("tvm", "tvm_ffi", "numpy", "onnx", "PIL", "distributed")
MAIN = "from relay_int8.cli import main; main()"
WATCHED = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr))
{MAIN}
"""


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        (0, ["--help"]),
        (0, ["--version"]),
        (0, ["quantize", "--help"]),
        (0, ["table", "convert", "--help"]),
        (2, ["no-such-command"]),
        (2, ["quantize"]),
        (2, ["quantize", "m.onnx", "-o", "m.ri8", "--pixels", "nchv"]),
        (2, ["quantize", "m.onnx", "-o", "m.ri8", "--data", "d", "--table", "t"]),
        (2, ["evaluate", "x.ri8", "--data", "x.npz"]),
        (2, ["export-qdq", "m.onnx", "-o", "m_qdq.onnx"]),
        (2, ["tune", "m.onnx", "--search", "none"]),
        (2, ["sensitivity", "m.onnx", "--data", "d", "--plan", "p.json"]),
    ],
)
def test_nothing_heavy_is_imported(code, arguments):
    command = [sys.executable, "-c", WATCHED, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


WITHOUT_TORCH = """
import multiprocessing, sys
import relay_int8.cli
import tvm.relax
def has_torch():
    import tvm.relax
    return "torch" in sys.modules
if __name__ == "__main__":
    print(has_torch())
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(has_torch))
    import torch
    print(torch.IS_TORCH)
"""


def test_commands_do_not_wait_for_pytorch(tmp_path: Path):
    """TVM imports it where it is installed; the user's own code can still have it."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("IS_TORCH = True\n")
    program = tmp_path / "program.py"
    program.write_text(WITHOUT_TORCH)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False", "True"]


def _tools():
    """Return the settings that complete --tool, by the name of the tool."""
    by_name = {}
    for text in words.TOOLS:
        by_name.setdefault(text.partition("=")[0], []).append(text)
    return by_name


def test_words_are_those_of_the_library():
    assert (*METHODS,) == words.METHODS
    assert (*FORMATS,) == words.FORMATS
    assert (*PRESETS,) == words.PRESETS
    assert (*PREPARATIONS,) == words.PREPARATIONS
    assert (*METRICS,) == words.METRICS
    assert {"native", "cuda", *TARGETS} == {*words.TARGETS}
    assert (*SEARCHES,) == words.SEARCHES
    tools = {name: [text.partition("=")[2] for text in texts] for name, texts in _tools().items()}
    assert tools == {**{name: [*known] for name, known in SETTINGS.items()}, "unify": ["yes", "no"]}
    assert words.ROUNDINGS == ROUNDINGS and words.Requantize == Requantize
    assert (QuantConfig.preset, QuantConfig.method) == (words.PRESET, words.METHOD)


@pytest.mark.parametrize("module", ["typer", "tvm", "numpy"])
def test_ctrl_c_in_an_import_is_130_without_a_traceback(module, tmp_path):
    """A module that interrupts when it is imported stands in for a user who is quick."""
    fault = "import os, signal; os.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / f"{module}.py").write_text(fault + "raise ImportError('half imported')\n")
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {MAIN}"
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", code, "inspect", "model.onnx"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 128 + signal.SIGINT, done.stderr
    assert done.stdout + done.stderr == ""
