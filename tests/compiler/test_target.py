"""What --target and --arch mean together."""

import platform

import pytest
from tvm.target import Target

from relay_int8.compiler.target import resolve, resolve_target
from relay_int8.errors import ConfigError
from relay_int8.machine.gpu import Gpu, Gpus
from schedules.targets import machine, named_target
from tests.nvidia import needs_compiler

pytestmark = [
    pytest.mark.fast,
    needs_compiler,
]
H200 = Gpu(name="NVIDIA H200", architecture="sm_90", memory_bytes=1 << 37)
T4 = Gpu(name="Tesla T4", architecture="sm_75", memory_bytes=1 << 34)
ALL = ("sm_61", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
JSON = '{"kind": "cuda", "arch": "sm_80", "host": {"kind": "llvm", "mcpu": "znver4"}}'


def two() -> Gpus:
    return Gpus(devices=(H200, T4), driver="13.0")


def none() -> Gpus:
    return Gpus(problem="there is no NVIDIA driver")


@pytest.mark.parametrize(
    ("target", "text", "arch", "architectures"),
    [
        ("cuda", "", "sm_75", ("sm_75", "sm_90")),
        ("cuda", "native", "sm_75", ("sm_75", "sm_90")),
        ("cuda", "sm_90,sm_86", "sm_86", ("sm_86", "sm_90")),
        ("sm_80", "", "sm_80", ("sm_80",)),
        ("sm_80", "sm_80,sm_90", "sm_80", ("sm_80", "sm_90")),
        ("cuda", "sm_87,sm_72", "sm_72", ("sm_72", "sm_87")),
        (JSON, "sm_90", "sm_80", ("sm_90",)),
    ],
)
def test_kernels_are_chosen_for_the_oldest(target, text, arch, architectures):
    found = resolve(target, text, find_gpus=two)
    assert (found.target.attrs["arch"], found.architectures) == (arch, architectures)
    assert found.target.host is not None


def test_all_is_every_generation():
    found = resolve("cuda", "all", find_gpus=none)
    assert found.target.attrs["arch"] == "sm_61"
    assert found.architectures[:6] == ALL


def test_a_target_keeps_its_host():
    assert resolve(JSON).target.host.attrs["mcpu"] == "znver4"
    target = named_target("sm_80")
    assert resolve(target).target.same_as(target)


@pytest.mark.parametrize("name", ["sm_72", "sm_87"])
def test_the_computer_of_a_jetson_is_an_arm(name):
    assert machine(resolve("cuda", name).target) == machine(resolve(name).target) == "aarch64"
    assert machine(resolve("sm_86").target) == platform.machine()


def test_threads_are_those_of_a_cpu():
    assert resolve_target("x86", 2).attrs["num-cores"] == 2
    assert resolve_target("sm_80").kind.name == "cuda"
    with pytest.raises(
        ConfigError, match=r"2 threads are asked for, .* sm_80: .*; leave the number out"
    ):
        resolve_target("sm_80", 2)


def test_a_cpu_has_none():
    assert not resolve("x86").architectures
    assert not resolve(Target({"kind": "llvm"})).architectures


@pytest.mark.parametrize(
    ("target", "text", "message"),
    [
        (
            "cuda",
            "",
            r"GPU was asked for, but there is no NVIDIA driver; .* say BuildOptions\(arch='all'\), or",
        ),
        ("cuda", "sm_37", "'sm_37' is not known; choose native, all, or some of sm_61"),
        (
            "x86",
            "sm_80",
            r"those of GPUs, the target is x86; say BuildOptions\(target='cuda', arch=...\)",
        ),
        ("sm_86", "sm_90,sm_75", "kernels for sm_86 do not run on sm_75; say target cuda"),
        (
            "cuda",
            "sm_80,sm_87",
            r"sm_80 \(x86_64\), sm_87 \(aarch64\) are in computers of different",
        ),
        ("gpu", "", "'gpu' is unknown; choose one of native, .* cuda, sm_61"),
    ],
)
def test_what_makes_no_sense(target, text, message):
    with pytest.raises(ConfigError, match=message):
        resolve(target, text, find_gpus=none)
