"""The zoo's transformers, cut: the oracle's integers on every x86 flavour and by CUDA C on the CPU."""

import pytest
from tvm.target import Target

from schedules.targets import TARGETS
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
)
from tests.x86_targets import X86
from tests.zoo_transformers import DISTINCT, cut_transformer

pytestmark = pytest.mark.slow
QUICK = "bert_base"


@pytest.fixture(scope="module", params=DISTINCT)
def network(request, full: bool) -> QuantizedNetwork:
    if request.param != QUICK and not full:
        pytest.skip("needs --full: others consist of blocks that have tests of their own")
    return cut_transformer(request.param)


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(network, target):
    assert_equals_oracle(network, Target(TARGETS[target]))


def test_equals_oracle_on_emulated_gpu(network):
    found = EmulatedNetwork(network.mod, SM_61, optimize=True).run(network.inputs)
    assert_found_equals_oracle(network, found)
