"""Outputs that differ are judged kernel by kernel, by a device that is wrong in a known place.

The device runs a library of other constants than the reference, under the same model's name.
"""

import json
import platform
from pathlib import Path

import numpy as np
import pytest
import tvm
from rich.console import Console
from tvm import relax

from relay_int8.cli.deploy import _as_json, _print
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import DeployError
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.remote.address import Endpoint
from relay_int8.remote.deploy import deploy
from relay_int8.runtime.artifact import save_artifact
from relay_int8.runtime.manifest import Manifest
from schedules.targets import native_target, needed_flags, target_config
from tests.quantized_networks import image
from tests.remote.processes import server
from tests.small_networks import NetworkWriter, any_params, nn

PLAIN = tvm.target.Target({"kind": "llvm"})
SIZE = (1, 3, 32, 32)


def network(rounding: float = 0.0, wrong: float = 0.0) -> tvm.IRModule:
    """A float convolution between integer ones; ``rounding`` and ``wrong`` change constants.

    Parameters
    ----------
    rounding
        By which part the float convolution's weights are larger.
    wrong
        What is added to the bias of one channel of the last integer convolution.
    """
    net = NetworkWriter(SIZE)
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    w = np.random.default_rng(0).normal(scale=0.1, size=(16, 16, 3, 3)) * (1 + rounding)
    b = net.relu("b", net.emit("b/conv", nn.conv2d(a, relax.const(w.astype("float32")), padding=1)))
    y = net.emit("c/conv", nn.conv2d(b, net.constant(16, 16, 1, 1, scale=0.25)))
    bias = np.zeros((1, 16, 1, 1), "float32")
    bias[0, 5] = wrong
    return net.module(net.relu("c", net.emit("c/bias", relax.op.add(y, relax.const(bias)))))


def artifact(path: Path, target: tvm.target.Target, **changes: float) -> Path:
    mod = network(**changes)
    plan = annotate(mod, QuantConfig(exclude=("b",)))
    built = compile_module(InsertQdq(plan, any_params(plan))(mod), target)
    library = path.with_suffix(".so")
    built.export(library)
    manifest = Manifest(
        inputs=(TensorInfo(name="x", shape=SIZE, dtype="float32"),),
        outputs=(TensorInfo(name="y", shape=(1, 16, 32, 32), dtype="float32"),),
        machine=platform.machine(),
        cpu_flags=needed_flags(target),
        target=target_config(target),
        model_digest="1" * 64,
        coverage={"int8_layers": 3, "float_layers": 1},
        kernels=tuple(call.entry for call in built.calls),
    )
    save_artifact(path, library.read_bytes(), manifest)
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory) -> Path:
    """The network as it is, in the layouts of this computer's processor."""
    return artifact(tmp_path_factory.mktemp("reference") / "network.ri8", native_target())


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Endpoint:
    folder = tmp_path_factory.mktemp("served")
    with server(folder, "--threads", "1") as served:
        served.wait_until_serving()
        yield Endpoint(address=served.address)
        assert not served.files


def deployed(path: Path, place: Endpoint, reference: Path):
    return deploy(path, place, inputs=image(network()), reference=reference, repeats=1)


def test_a_rounding_in_front_of_integers_is_no_fault(tmp_path, place, reference, capsys):
    """Far more than 1e-5 in the outputs, since an integer behind the float layer fell otherwise."""
    path = artifact(tmp_path / "rounded.ri8", PLAIN, rounding=6e-6)
    result = deployed(path, place, reference)
    (output,) = result.comparisons
    assert 0 < output.different < output.elements and output.largest > 1e-3
    assert result.kernels is not None and result.kernels.fault is None
    (difference,) = result.kernels.differences
    assert difference.result.name == "b" and 0 < difference.different < difference.elements
    # And so it is printed.
    _print(result, "title", Console(width=300), on_gpu=False)
    assert "kernels, each with the inputs it has here, 1 round " in capsys.readouterr().out
    (said,) = json.loads(_as_json(result))["kernels"]["differences"]
    assert said["tolerated"] and said["result"]["name"] == "b"


def test_the_wrong_kernel_is_named(tmp_path, place, reference):
    """Floats before it are rounded otherwise, too."""
    path = artifact(tmp_path / "wrong.ri8", PLAIN, rounding=6e-6, wrong=0.2)
    message = r"the first kernel that is wrong is conv2d\S* \(call \d+ of \d+, tensor c\): with the"
    with pytest.raises(DeployError, match=message):
        deployed(path, place, reference)
