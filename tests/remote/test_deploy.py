"""Deploy: other processes compute the oracle's integers; what is wrong there is an error here.

Tracker, proxy and servers are real processes on loopback.
"""

import dataclasses
import json
import os
import platform
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tvm

from relay_int8.compiler import weights
from relay_int8.compiler.build import compile_module
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ArtifactError, ConfigError, DeployError
from relay_int8.remote.address import Endpoint
from relay_int8.remote.comparison import compare
from relay_int8.remote.deploy import deploy
from relay_int8.remote.device import Device, Needs, misfit
from relay_int8.runtime.artifact import save_artifact
from relay_int8.runtime.manifest import Manifest
from schedules.targets import needed_flags, target_config
from tests import reference
from tests.quantized_networks import QuantizedNetwork
from tests.remote.processes import free_address, server, tvm_process, until
from tests.small_networks import NETWORKS, any_params

PLAIN = tvm.target.Target({"kind": "llvm"})


@dataclasses.dataclass(frozen=True)
class Case:
    """An artifact with inputs, and what the oracle computes of them."""

    path: os.PathLike
    library: os.PathLike
    weights: tuple[np.ndarray, ...]
    manifest: Manifest
    inputs: dict[str, np.ndarray]
    expected: dict[str, np.ndarray]

    def altered(self, folder, **changes):
        """Return the artifact with another manifest."""
        manifest = dataclasses.replace(self.manifest, **changes)
        save_artifact(folder / "altered.ri8", self.library.read_bytes(), manifest, self.weights)
        return folder / "altered.ri8"


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("artifact")
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params)
    names = reference.output_names(network.mod, network.inputs)
    expected = {f"y{i}": network.expected[name] for i, name in enumerate(names)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(weights, "LEAST_BYTES", 1)
        built = compile_module(network.mod, PLAIN, weights_apart=True)
    assert len(built.weights) > 2
    built.export(folder / "library.so")
    manifest = Manifest(
        inputs=_infos(network.inputs),
        outputs=_infos(expected),
        machine=platform.machine(),
        cpu_flags=needed_flags(PLAIN),
        target=target_config(PLAIN),
        model_digest="1" * 64,
        coverage={"int8_layers": 7, "float_layers": 0},
    )
    library = (folder / "library.so").read_bytes()
    save_artifact(folder / "network.ri8", library, manifest, built.weights)
    return Case(
        folder / "network.ri8",
        folder / "library.so",
        built.weights,
        manifest,
        network.inputs,
        expected,
    )


def _infos(arrays):
    return tuple(
        TensorInfo(name=name, shape=array.shape, dtype=str(array.dtype))
        for name, array in arrays.items()
    )


@pytest.fixture(scope="module")
def direct(tmp_path_factory):
    """A server with a key and one thread."""
    folder = tmp_path_factory.mktemp("direct")
    with server(folder, "--key", "secret", "--threads", "1") as served:
        served.wait_until_serving()
        yield served


def at(served, key="secret", **other):
    return Endpoint(address=served.address, key=key, **other)


def assert_equals_oracle(result, case):
    assert list(result.outputs) == list(case.expected)
    for name, wanted in case.expected.items():
        np.testing.assert_array_equal(result.outputs[name], wanted)
    assert [found.different for found in result.comparisons] == [0] * len(case.expected)


def test_equals_the_oracle(case, direct):
    result = deploy(case.path, at(direct), inputs=case.inputs, repeats=3)
    assert_equals_oracle(result, case)
    assert result.device.machine == platform.machine()
    assert result.device.threads == 1
    assert result.reference == str(case.path)
    assert len(result.times_ms) == 3
    assert all(0 < time < 1000 for time in result.times_ms)
    assert list(result.seconds) == [
        "connect", "describe the device", "upload", "load", "run", "time"
    ]  # fmt: skip
    assert not direct.files


def test_command_line(case, direct, tmp_path):
    from typer.testing import CliRunner

    from relay_int8.cli import app

    for name, array in case.inputs.items():
        np.save(tmp_path / f"{name}.npy", array)
    ((name, wanted),) = case.expected.items()
    options = ["--rpc", str(direct.address), "--key", "secret", "--repeats", "2"]
    options += ["-i", f"x={tmp_path / 'x.npy'}", "-o", str(tmp_path / "y.npy")]
    result = CliRunner().invoke(app, ["deploy", str(case.path), *options])
    assert result.exit_code == 0, result.output
    assert "arrived unaltered (sha256)" in result.stdout
    assert f"all {wanted.size} values equal, bit for bit" in result.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
    result = CliRunner().invoke(app, ["deploy", str(case.path), *options, "--json"])
    (compared,) = json.loads(result.stdout)["comparisons"]
    assert compared == {"name": name, "elements": wanted.size, "different": 0, "largest": 0.0}


def test_tracker_two_servers_one_of_them_killed(case, tmp_path):
    with tvm_process("tracker", tmp_path / "tracker") as tracker:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        options = ["--tracker", str(tracker), "--key", "board"]
        place = Endpoint(address=tracker, tracker=True, key="board")
        with server(folders[0], *options) as one, server(folders[1], *options) as two:
            for served in (one, two):
                served.wait_until_serving()
            assert_equals_oracle(deploy(case.path, place, inputs=case.inputs, repeats=1), case)
            with pytest.raises(DeployError, match="no device with key 'other', but board; start"):
                deploy(case.path, Endpoint(address=tracker, tracker=True, key="other"))
            with pytest.raises(
                DeployError, match=r"where it serves for a tracker, .* Endpoint\(tracker=True\)$"
            ):
                deploy(case.path, Endpoint(address=one.address, key="board"))
            with pytest.raises(
                DeployError, match=r"no RPC server .* a tracker is given as Endpoint"
            ):
                deploy(case.path, Endpoint(address=tracker))

            running = ThreadPoolExecutor(1).submit(deploy, case.path, place, repeats=3000)
            working = until(lambda: [s for s in (one, two) if s.files], "upload")[0]
            until(lambda: working.text.count("load_module") > _loads_before(working), "load")
            working.process.kill()
            error = running.exception(60)
            assert isinstance(error, DeployError)
            assert f"{tracker}: could not " in str(error)
            assert "the device is lost" in str(error)
            until(lambda: not working.folder.exists(), "end of the killed device", 10)

            # The other one goes on.
            assert_equals_oracle(deploy(case.path, place, inputs=case.inputs, repeats=1), case)
            assert not [file for s in (one, two) if s.folder.exists() for file in s.files]


def _loads_before(served):
    """Return how many sessions have ended."""
    return served.text.count("finish serving")


def test_proxy(case, tmp_path):
    with (
        tvm_process("proxy", tmp_path / "proxy") as proxy,
        server(tmp_path, "--proxy", str(proxy), "--key", "behind") as served,
    ):
        served.wait_until_serving()
        place = Endpoint(address=proxy, key="behind")
        assert_equals_oracle(deploy(case.path, place, inputs=case.inputs, repeats=1), case)


def test_a_device_that_hangs(case, tmp_path):
    with server(tmp_path) as served:
        served.wait_until_serving()
        place = at(served, key="")
        os.kill(served.below[0].pid, signal.SIGSTOP)
        with pytest.raises(DeployError, match="gave up after 4 s, waiting for it to connect"):
            deploy(case.path, place, timeout_s=4)
        os.kill(served.below[0].pid, signal.SIGCONT)


# A server that stores another bit than it gets.
ALTERING = """#!{python}
import tvm_ffi
from relay_int8.remote import server_process

def upload(name, content):
    altered = bytearray(content)
    altered[len(altered) // 2] ^= name == {altered!r}
    with open(tvm_ffi.get_global_func("tvm.rpc.server.workpath")(name), "wb") as file:
        file.write(altered)

tvm_ffi.register_global_func("tvm.rpc.server.upload", upload, override=True)
server_process.main()
"""


@pytest.mark.parametrize(
    ("name", "said"), [("library.so", "the library was"), ("weights.bin", "the weights were")]
)
def test_altered_upload(case, tmp_path, name, said):
    program = tmp_path / "altering"
    program.write_text(ALTERING.format(python=sys.executable, altered=name))
    program.chmod(0o755)
    with server(tmp_path, before=f"import sys; sys.executable = {str(program)!r}") as served:
        served.wait_until_serving()
        with pytest.raises(DeployError, match=f"{said} altered on its way: its sha256 .*; nothing"):
            deploy(case.path, at(served, key=""))
        assert not served.files
        assert "load_module" not in served.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"machine": "aarch64"}, "built for aarch64, the device is"),
        ({"cpu_flags": ("amx_imaginary",)}, "a CPU with amx_imaginary, which the device"),
        ({"tvm_version": "0.26.0"}, "built with apache-tvm 0.26.0, the device has 0.27"),
    ],
)
def test_does_not_fit(case, direct, tmp_path, changes, message):
    with pytest.raises(DeployError, match=message):
        deploy(case.altered(tmp_path, **changes), at(direct))
    assert "load_module" not in direct.text.split("connected from")[-1]


def test_wrong_key(case, direct):
    with pytest.raises(DeployError, match="no device with key 'wrong'; give the key of relay-i"):
        deploy(case.path, at(direct, key="wrong"))


def test_no_server(case):
    address = free_address()
    with pytest.raises(DeployError, match=f"{address}: nothing listens there; start relay-int8"):
        deploy(case.path, Endpoint(address=address))


def test_a_server_of_tvm(case, tmp_path):
    with (
        tvm_process("server", tmp_path / "log") as address,
        pytest.raises(DeployError, match="cannot say what device it is; run relay-int8 serve"),
    ):
        deploy(case.path, Endpoint(address=address))


def test_other_outputs_than_expected(case, direct, tmp_path):
    """The reference claims to be the same model, and computes something else."""
    other = QuantizedNetwork.make(NETWORKS["residual"]())
    compile_module(other.mod, PLAIN).export(tmp_path / "library.so")
    save_artifact(tmp_path / "other.ri8", (tmp_path / "library.so").read_bytes(), case.manifest)
    with pytest.raises(DeployError, match=r"output y0: \d+ of \d+ values differ from those exp"):
        deploy(case.path, at(direct), inputs=case.inputs, reference=tmp_path / "other.ri8")


def test_reference_of_another_model(case, direct, tmp_path):
    other = case.altered(tmp_path, model_digest="2" * 64)
    with pytest.raises(ConfigError, match=r"model digest 2+\.\.\., that of .* is 1+\.\.\."):
        deploy(case.path, at(direct), reference=other)


def test_inputs_that_are_not_its(case, direct):
    with pytest.raises(ArtifactError, match="inputs z given; x expected"):
        deploy(case.path, at(direct), inputs={"z": np.zeros(3)})


@pytest.mark.fast
@pytest.mark.parametrize(
    ("found", "expected", "different", "largest"),
    [
        (np.zeros(3, "int8"), np.zeros(3, "int8"), 0, 0.0),
        (np.array([1, -128], "int8"), np.array([1, 127], "int8"), 1, 255.0),
        (np.float32([[1.0, 2.0]]), np.float32([[1.5, 2.0]]), 1, 0.5),
        (np.float32([0.0]), np.float32([-0.0]), 1, 0.0),  # equal numbers, other bits
        (np.float32([np.nan]), np.float32([np.nan]), 0, 0.0),
        (np.float32([]), np.float32([]), 0, 0.0),
        (np.float32(3), np.float32(5), 1, 2.0),
        (np.zeros(3, "float32"), np.zeros(3, "int8"), 3, np.inf),
        (np.zeros((3, 1), "int8"), np.zeros((1, 3), "int8"), 3, np.inf),
    ],
)
def test_compare(found, expected, different, largest):
    result = compare("y", np.asarray(found), np.asarray(expected))
    assert (result.elements, result.different) == (np.size(found), different)
    assert result.largest == largest


@pytest.mark.fast
def test_fits():
    needs = Needs(
        machine="aarch64", cpu_flags=("asimddp",), target={}, tvm_version="1", tvm_ffi_version="2"
    )
    device = Device(
        cpu="Neoverse",
        machine="aarch64",
        cpu_flags=("asimddp", "sve"),
        threads=4,
        tvm_version="1",
        tvm_ffi_version="2",
        project_version="0",
    )
    assert misfit(needs, device) is None
    other = dataclasses.replace(needs, target={"kind": "cuda"})
    assert "built for cuda, only the CPU" in misfit(other, device)
    for changes, message in (
        ({"machine": "x86_64"}, "built for aarch64, the device is x86_64 (Neoverse)"),
        ({"cpu_flags": ("sve",)}, "a CPU with asimddp, which the device (Neoverse) lacks"),
        ({"tvm_version": "3"}, "apache-tvm 1, the device has 3; pip install apache-tvm==1 there"),
        ({"tvm_ffi_version": "3"}, "apache-tvm-ffi 2, the device has 3"),
    ):
        reason = misfit(needs, dataclasses.replace(device, **changes))
        assert message in reason
