"""depthwise_avxvnni and grouped_avxvnni: VEX vpdpbusd in the code, integers exact.

Computers that have AVX-512 VNNI run the same expressions, which LLVM encodes for them.
"""

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.x86.windows_avxvnni import DEPTHWISE_AVXVNNI, GROUPED_AVXVNNI
from tests.schedules.conv_runs import WANTED, conv, run

ALDERLAKE = Target({"kind": "llvm", "mcpu": "alderlake"})
CASCADELAKE = Target({"kind": "llvm", "mcpu": "cascadelake"})
KERNELS = {
    "depthwise": (DEPTHWISE_AVXVNNI, conv(20, (4, 6), residual="uint8")),
    "grouped": (GROUPED_AVXVNNI, conv(24, (3, 4), groups=3, leaky=True)),
}


@pytest.mark.isa("avx512_vnni")
@pytest.mark.parametrize("name", KERNELS)
def test_integers(name):
    actual, expected, _ = run(*KERNELS[name], CASCADELAKE)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.fast
@pytest.mark.parametrize("name", KERNELS)
def test_instruction(name):
    template, spec = KERNELS[name]
    main = template.kernel(spec, WANTED).with_attr("global_symbol", "main")
    sch = Schedule(tvm.IRModule({"main": main}))
    template.default(sch, spec, ALDERLAKE)
    assembly = tvm.compile(sch.mod, target=ALDERLAKE).mod.inspect_source("asm")
    assert "vpdpbusd" in assembly and "%zmm" not in assembly


@pytest.mark.fast
def test_refuses_cpus_without_it():
    template, spec = KERNELS["depthwise"]
    assert template.refuses(spec, ALDERLAKE) is None
    assert template.refuses(spec, CASCADELAKE) == "target cpu cascadelake lacks avxvnni"
