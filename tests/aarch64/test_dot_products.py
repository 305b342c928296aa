"""sdot and usdot: the kernels' instructions, and their integers under qemu."""

from typing import Any

import pytest
from tvm.target import Target

from schedules.arm.sdot import CONV2D_SDOT, CONV2D_STEM_SDOT, DENSE_SDOT
from schedules.arm.usdot import CONV2D_STEM_USDOT, CONV2D_USDOT, DENSE_USDOT
from schedules.spec import Conv2d, Dense
from tests.aarch64.kernel_runs import ARM, assembly, assert_integers

CONV: dict[str, Any] = {
    "batch": 1,
    "in_channels": 20,
    "height": 7,
    "width": 9,
    "out_channels": 32,
    "kernel": (3, 3),
    "padding": (1, 1, 1, 1),
}
STEM = {**CONV, "in_channels": 3, "strides": (2, 2)}
DENSE = {"rows": 2, "n": 20, "k": 30}
KERNELS = {
    "conv2d_sdot": (CONV2D_SDOT, Conv2d(**CONV, x="int8", y="int8")),
    "conv2d_usdot": (CONV2D_USDOT, Conv2d(**CONV, x="uint8", y="uint8", residual="int8")),
    "conv2d_stem_sdot": (CONV2D_STEM_SDOT, Conv2d(**STEM, x="int8", y="int8")),
    "conv2d_stem_usdot": (CONV2D_STEM_USDOT, Conv2d(**STEM, x="uint8", y="uint8")),
    "dense_sdot": (DENSE_SDOT, Dense(**DENSE, x="int8", y="int8")),
    "dense_usdot": (DENSE_USDOT, Dense(**DENSE, x="uint8", y="float32")),
}


@pytest.mark.parametrize("name", KERNELS)
def test_integers(name, emulator):
    assert_integers(*KERNELS[name], emulator)


@pytest.mark.fast
@pytest.mark.parametrize("name", KERNELS)
def test_instruction(name):
    template, spec = KERNELS[name]
    assert f"\t{template.name.rpartition('_')[2]}\t" in assembly(template, spec)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("conv2d_sdot", "target cpu generic lacks dotprod"),
        ("conv2d_usdot", "target cpu generic lacks i8mm"),
    ],
)
def test_refuses_older_cpus(name, reason):
    template, spec = KERNELS[name]
    assert template.refuses(spec, Target(ARM)) == reason
