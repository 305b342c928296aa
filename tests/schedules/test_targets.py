"""Targets by name: what they need of a computer, and what is refused."""

import json
import platform

import pytest
from tvm.target import Target

from schedules.cpu_flags import cpu_flags
from schedules.targets import (
    TARGETS,
    machine,
    named_target,
    native_target,
    needed_flags,
    target_config,
)
from schedules.template import ScheduleError

pytestmark = pytest.mark.fast


def test_this_computer_can_run_its_own_target():
    target = native_target()
    assert machine(target) == platform.machine()
    assert set(needed_flags(target)) <= cpu_flags()


@pytest.mark.isa("avx512_vnni")
def test_native_uses_what_the_computer_has():
    assert "avx512_vnni" in needed_flags(native_target())


def test_a_target_needs_no_more_than_the_computer_says_it_has(monkeypatch, tmp_path):
    few = {"pni", "ssse3", "sse4_1", "popcnt", "asimd"}
    (tmp_path / "cpuinfo").write_text(f"flags\t\t: {' '.join(few)}\n")
    monkeypatch.setattr("schedules.cpu_flags.CPUINFO", tmp_path / "cpuinfo")
    assert set(needed_flags(native_target())) <= few


@pytest.mark.isa("avx512_vnni")
def test_features_that_a_virtual_machine_hides_are_off():
    target = native_target(cpu_flags() - {"avx512_vnni"})
    assert "avx512_vnni" not in needed_flags(target)
    assert "avx512f" in needed_flags(target)


@pytest.mark.parametrize(
    ("name", "arch", "has", "lacks"),
    [
        ("x86-vnni", "x86_64", {"avx512_vnni", "avx512f"}, {"amx_int8", "avx512_bf16"}),
        ("x86-avx2", "x86_64", {"avx2", "fma"}, {"avx512f"}),
        ("x86", "x86_64", set(), {"avx", "sse4_1"}),
        ("aarch64", "aarch64", {"asimd"}, {"asimddp"}),
        (
            '{"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+dotprod"]}',
            "aarch64",
            {"asimddp"},
            {"sve"},
        ),
    ],
)
def test_needed_flags(name, arch, has, lacks):
    target = named_target(name)
    flags = set(needed_flags(target))
    assert machine(target) == arch
    assert has <= flags
    assert not lacks & flags


@pytest.mark.parametrize(
    "name",
    ["native", *TARGETS, "sm_80", '{"kind": "llvm", "mcpu": "znver4", "mattr": ["-avx512vnni"]}'],
)
def test_a_target_comes_back_from_its_config(name):
    target = named_target(name)
    config = target_config(target)
    assert json.loads(json.dumps(config)) == config
    assert str(Target(config)) == str(target)
    assert needed_flags(Target(config)) == needed_flags(target)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x86-vnnni", "'x86-vnnni' is unknown; choose one of native, x86-vnni"),
        ("{", "target {: no JSON; it looks like "),
        ('{"a":' * 100_000, "no JSON; it looks like "),
        ('{"mcpu": "haswell"}', "it has no kind; it looks like "),
        ('{"kind": "llvm", "mcpu": 5}', "expected type 'str' but got 'int'.$"),
        ('{"kind": "llvm", "num-cores": -1}', "num-cores -1 found, a number from 1 to 1024 expec"),
        ('{"kind": "llvm", "num-cores": 0}', "num-cores 0 found"),
        ('{"kind": "zzz"}', 'Target kind "zzz" is not defined'),
        ('{"kind": "llvm", "zzz": 1}', "Unknown config option 'zzz'"),
        ('{"kind": "llvm", "mcpu": "zzz"}', "LLVM knows no CPU zzz"),
        ('{"kind": "llvm", "mattr": ["+zzz"]}', r"LLVM knows no feature \+zzz of x86_64"),
        ('{"kind": "llvm", "mattr": ["avx2"]}', "LLVM knows no feature avx2 of x86_64"),
        ('{"kind": "llvm", "mtriple": "zzz"}', "mtriple zzz is not of x86_64 or aarch64"),
        ('{"kind": "opencl"}', "kind opencl is not supported"),
        ("sm_37", "'sm_37' is unknown"),
        ('{"kind": "cuda", "arch": "sm_37"}', "arch sm_37 is not one of sm_61"),
        ('{"kind": "cuda", "arch": "sm_80"}', "has no host"),
        (
            '{"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mcpu": "zzz"}}',
            "no CPU zzz",
        ),
        ('{"kind": "llvm", "fast-math": 1}', "fast-math changes results"),
    ],
)
@pytest.mark.filterwarnings("ignore:Try specifying cuda arch")
def test_bad_targets(name, message):
    with pytest.raises(ScheduleError, match=message):
        named_target(name)
