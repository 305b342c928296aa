"""Networks of operators in any order, on an emulated GPU: the oracle's integers; NVRTC takes them."""

import pytest

from tests.cuda.run_network import EmulatedNetwork, kernel_source
from tests.cuda.run_template import SM_61, SM_80
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.random_networks import random_network

GPUS = {"sm_61": SM_61, "sm_80": SM_80}
FAST, SLOW = 2, 8
SEEDS = [*range(FAST), *(pytest.param(n, marks=pytest.mark.slow) for n in range(FAST, SLOW))]


@pytest.mark.parametrize("seed", SEEDS)
def test_equals_oracle(nvrtc, seed: int):
    arch = tuple(GPUS)[seed % 2]
    preset = ("int8", "int8-asymmetric")[seed % 4 // 2]
    network = QuantizedNetwork.make(random_network(seed), preset=preset)
    emulated = EmulatedNetwork(network.mod, GPUS[arch])
    assert_found_equals_oracle(network, emulated.run(network.inputs), fewest=3)
    assert nvrtc.compile(kernel_source(emulated.mod, GPUS[arch]), arch).binary
