"""A quantized network becomes one library for GPUs; where there is none, an error says so."""

import pytest
import tvm

from relay_int8.compiler.build import Built, compile_module, virtual_machine
from relay_int8.errors import ConfigError
from schedules.cuda.toolchain import nvrtc
from schedules.cuda.toolchain.fat_binary import MAGIC
from tests.cuda.run_template import SM_61, SM_80
from tests.nvidia import needs_compiler
from tests.quantized_networks import QuantizedNetwork
from tests.small_networks import NETWORKS, any_params

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def network() -> QuantizedNetwork:
    return QuantizedNetwork.make(NETWORKS["residual"](), any_params)


@pytest.fixture(scope="module")
def built(network) -> Built:
    return compile_module(network.mod, SM_61, architectures=("sm_61", "sm_80"))


def test_the_library_holds_machine_code(built, tmp_path):
    built.export(tmp_path / "network.so")
    binary = (tmp_path / "network.so").read_bytes()
    assert MAGIC in binary and b"__global__" not in binary
    assert {call.template for call in built.calls} >= {"conv2d_dp4a", "dense_dp4a"}


def test_without_a_gpu_it_does_not_run(built):
    if tvm.cuda().exist:
        pytest.skip("there is a GPU")
    with pytest.raises(ConfigError, match="compiled for sm_61, but TVM finds no NVIDIA GPU"):
        virtual_machine(built)


def test_an_unknown_architecture_is_refused(network):
    with pytest.raises(ConfigError, match="'sm_800' is unknown to NVRTC"):
        compile_module(network.mod, SM_80, architectures=("sm_800",))


def test_without_the_compiler_the_extra_is_named(network, monkeypatch):
    monkeypatch.setattr(nvrtc, "PACKAGE", "no_such_package")
    with pytest.raises(ConfigError, match=r"pip install 'relay-int8\[cuda\]'"):
        compile_module(network.mod, SM_80)
