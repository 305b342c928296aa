"""A tiny artifact, and the command line as a function."""

import platform

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from typer.testing import CliRunner

from relay_int8.cli import app
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.runtime.artifact import save_artifact
from relay_int8.runtime.manifest import Manifest


@I.ir_module
class Scores:
    """Three scores of each of two images: the input itself, and its double."""

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        with R.dataflow():
            y = R.add(x, R.const(np.zeros((2, 3), "float32")))
            z = R.add(x, x)
            R.output(y, z)
        return (y, z)


@pytest.fixture(scope="session")
def artifact(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    executable = tvm.compile(
        relax.get_pipeline("zero")(Scores), tvm.target.Target({"kind": "llvm"})
    )
    executable.export_library(str(folder / "library.so"))
    x, y, z = (
        TensorInfo(name=name, shape=(2, 3), dtype="float32") for name in ("x", "scores", "twice")
    )
    manifest = Manifest(
        inputs=(x,),
        outputs=(y, z),
        machine=platform.machine(),
        cpu_flags=(),
        target={"kind": "llvm"},
        model_digest="0" * 64,
        settings={"preset": "int8"},
        coverage={"int8_layers": 2},
    )
    save_artifact(folder / "scores.ri8", (folder / "library.so").read_bytes(), manifest)
    return folder / "scores.ri8"


@pytest.fixture
def invoke():
    """Return a function that runs ``relay-int8`` and returns (exit code, stdout, stderr)."""

    def call(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    return call
