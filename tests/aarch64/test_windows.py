"""Depthwise and small groups on sdot and usdot: the kernels' instructions, and their integers."""

import pytest
from tvm.target import Target

from schedules.arm.windows import DEPTHWISE_SDOT, DEPTHWISE_USDOT, GROUPED_SDOT, GROUPED_USDOT
from tests.aarch64.kernel_runs import ARM, assembly, assert_integers
from tests.schedules.conv_runs import conv

KERNELS = {
    "depthwise_sdot": (DEPTHWISE_SDOT, conv(20, (5, 6), x="int8", y="int8")),
    "depthwise_usdot": (DEPTHWISE_USDOT, conv(16, (4, 3), strides=(2, 1), residual="uint8")),
    "grouped_sdot": (GROUPED_SDOT, conv(24, (3, 4), groups=3, x="int8", y="int8")),
    "grouped_usdot": (GROUPED_USDOT, conv(20, (3, 4), groups=5, y="float32")),
}


@pytest.mark.parametrize("name", KERNELS)
def test_integers(name, emulator):
    assert_integers(*KERNELS[name], emulator)


@pytest.mark.fast
@pytest.mark.parametrize("name", KERNELS)
def test_instruction(name):
    assert "dot\t" in assembly(*KERNELS[name])  # LLVM may turn usdot into sudot by element


@pytest.mark.fast
def test_refuses_older_cpus():
    template, spec = KERNELS["depthwise_sdot"]
    assert template.refuses(spec, Target(ARM)) == "target cpu generic lacks dotprod"
