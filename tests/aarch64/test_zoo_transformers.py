"""The zoo's transformers, cut: aarch64's outputs under qemu are the oracle's."""

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from schedules.targets import TARGETS
from tests import reference
from tests.zoo_transformers import DISTINCT, cut_transformer

pytestmark = pytest.mark.slow
SDOT = Target({**TARGETS["aarch64"], "mattr": ["+v8.2a", "+dotprod"]})


@pytest.mark.parametrize("name", DISTINCT)
def test_equals_oracle(name: str, emulator, full: bool):
    if not full:
        pytest.skip("needs --full: blocks of attention have tests of their own")
    network = cut_transformer(name)
    found = emulator.run(compile_module(network.mod, SDOT), network.inputs.values())
    names = reference.output_names(network.mod, network.inputs)
    for name, actual in zip(names, found, strict=True):
        np.testing.assert_array_equal(actual, network.expected[name], err_msg=name)
