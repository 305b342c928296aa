"""Networks of operators in any order: the oracle's integers."""

import pytest
from tvm.target import Target

from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.random_networks import random_network

FAST, SLOW = 3, 16
PRESETS = ("int8", "int8-asymmetric")


@pytest.mark.parametrize(
    "seed", [*range(FAST), *(pytest.param(n, marks=pytest.mark.slow) for n in range(FAST, SLOW))]
)
def test_equals_oracle(seed: int):
    network = QuantizedNetwork.make(random_network(seed), preset=PRESETS[seed % 2])
    assert_equals_oracle(network, Target("llvm"), fewest=3)
