"""exp, tanh, erf and log of floats: aarch64 under qemu has the bits of docs/design.md."""

import numpy as np
import pytest
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from schedules.targets import TARGETS
from tests.aarch64.emulator import Emulator
from tests.compiler.passes.float_islands import network
from tests.oracle import series
from tests.schedules.test_series import values

FUNCTIONS = {"exp": relax.op.exp, "tanh": relax.op.tanh, "erf": relax.op.erf, "log": relax.op.log}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_oracle(name: str, emulator: Emulator):
    x = values()
    built = compile_module(network(FUNCTIONS[name], x.shape), Target(TARGETS["aarch64"]))
    (found,) = emulator.run(built, [x])
    np.testing.assert_array_equal(found, getattr(series, name)(x))
