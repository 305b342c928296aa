"""Build: kernels of every target give the oracle's integers, tensor by tensor."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tvm.target import Target

from relay_int8 import compile_model
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.link import cross_linker
from relay_int8.errors import ArtifactError, UnsupportedOpError
from schedules.targets import TARGETS
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NETWORKS, any_params
from tests.x86_targets import NEEDED, case

PRESETS = ("int8", "int8-asymmetric")


def _cases(*, quick: bool) -> list[Any]:
    """Return targets, networks and presets; the quick ones have zero points on a target in turn."""
    targets = list(NEEDED)
    return [
        case(target, name, preset)
        for i, name in enumerate(NETWORKS)
        for preset in PRESETS
        for target in targets
        if quick == (preset == "int8" or target == targets[i % len(targets)])
    ]


@cache
def network(name: str, preset: str) -> QuantizedNetwork:
    return QuantizedNetwork.make(NETWORKS[name](), any_params, preset=preset)


@pytest.mark.parametrize(("target", "name", "preset"), _cases(quick=True))
def test_equals_oracle(target: str, name: str, preset: str):
    assert_equals_oracle(network(name, preset), Target(TARGETS[target]))


@pytest.mark.slow
@pytest.mark.parametrize(("target", "name", "preset"), _cases(quick=False))
def test_zero_points_on_every_target(target: str, name: str, preset: str, full: bool):
    if not full:
        pytest.skip("needs --full: zero points run on one target a network by default")
    assert_equals_oracle(network(name, preset), Target(TARGETS[target]))


def test_a_target_without_templates_is_refused():
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params, preset="int8")
    with pytest.raises(UnsupportedOpError, match="target is opencl"):
        compile_module(network.mod, Target({"kind": "opencl"}, host="llvm"))


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ArtifactError, match=r"no C compiler found on the PATH: .* install one"):
        cross_linker(Target("llvm"))
    monkeypatch.setenv("CXX", "none")
    with pytest.raises(
        ArtifactError, match=r"^none, which the variable CXX or CC names, is no prog"
    ):
        compile_model("m.onnx", None, tmp_path / "m.ri8")


def test_a_missing_cross_compiler_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    network = QuantizedNetwork.make(NETWORKS["moves"](), any_params, preset="int8")
    built = compile_module(network.mod, Target(TARGETS["aarch64"]))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ArtifactError, match=r"aarch64-linux-gnu-g\+\+ not found"):
        built.export(tmp_path / "library.so")


def test_a_library_has_no_notes_for_debuggers(tmp_path: Path):
    network = QuantizedNetwork.make(NETWORKS["moves"](), any_params, preset="int8")
    compile_module(network.mod, Target(TARGETS["x86"])).export(tmp_path / "library.so")
    assert b".debug_" not in (tmp_path / "library.so").read_bytes()
