"""Weights of int16 on aarch64: NumPy's integers under qemu."""

import pytest

from schedules.cpu.plain import CONV2D_PLAIN_WIDE, DENSE_PLAIN_WIDE
from schedules.cpu.windows.depthwise import DEPTHWISE_PLAIN_WIDE
from schedules.spec import Dense
from tests.aarch64.kernel_runs import assert_integers
from tests.schedules.conv_runs import conv

KERNELS = {
    "conv2d": (CONV2D_PLAIN_WIDE, conv(20, (5, 6), groups=1, weights="int16")),
    "depthwise": (DEPTHWISE_PLAIN_WIDE, conv(16, (4, 3), x="int8", weights="int16")),
    "dense": (DENSE_PLAIN_WIDE, Dense(rows=3, n=20, k=9, x="int8", y="int8", weights="int16")),
}


@pytest.mark.parametrize("name", KERNELS)
def test_integers(name, emulator):
    assert_integers(*KERNELS[name], emulator)
