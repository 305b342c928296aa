"""Build: kernels of every target give the oracle's integers, tensor by tensor."""

from pathlib import Path

import pytest
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from relay_int8.errors import ArtifactError, UnsupportedOpError
from schedules.targets import TARGETS
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NETWORKS, any_params
from tests.x86_targets import X86

TURNS = ("x86-vnni", "x86-avx2", "x86")


@pytest.fixture(scope="module", params=["int8", "int8-asymmetric"])
def preset(request):
    return request.param


@pytest.fixture(scope="module", params=NETWORKS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def network(name, preset):
    return QuantizedNetwork.make(NETWORKS[name](), any_params, preset=preset)


@pytest.fixture(scope="module")
def turn(name):
    """Return the target whose turn it is with a network."""
    return TURNS[list(NETWORKS).index(name) % len(TURNS)]


@pytest.mark.slow
@pytest.mark.parametrize("target", X86)
def test_equals_oracle(network: QuantizedNetwork, target: str, preset: str, turn: str, full: bool):
    if not full and preset != "int8" and target != turn:
        pytest.skip("needs --full: zero points run on one target a network by default")
    assert_equals_oracle(network, Target(TARGETS[target]))


def test_a_target_without_templates_is_refused():
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params, preset="int8")
    with pytest.raises(UnsupportedOpError, match="target is opencl"):
        compile_module(network.mod, Target({"kind": "opencl"}, host="llvm"))


def test_a_missing_cross_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    network = QuantizedNetwork.make(NETWORKS["moves"](), any_params, preset="int8")
    built = compile_module(network.mod, Target(TARGETS["aarch64"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"aarch64-linux-gnu-g\+\+ not found"):
        built.export(tmp_path / "library.so")
