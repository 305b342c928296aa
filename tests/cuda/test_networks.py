"""Whole small networks as CUDA C on the CPU: every integer tensor equals the oracle's."""

import pytest
from tvm import tirx

from relay_int8.graph.attributes import TEMPLATE
from tests.cuda.emulator import kernels
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.small_networks import NETWORKS, any_params

CASES = [(name, "int8") for name in NETWORKS] + [("residual", "int8-asymmetric")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def networks(request) -> tuple[QuantizedNetwork, EmulatedNetwork]:
    name, preset = request.param
    network = QuantizedNetwork.make(NETWORKS[name](), any_params, preset=preset)
    return network, EmulatedNetwork(network.mod, SM_61)


def test_equals_oracle(networks):
    network, emulated = networks
    assert_found_equals_oracle(network, emulated.run(network.inputs))


def test_products_of_integers_are_dp4a(networks):
    _, emulated = networks
    bodies = kernels(emulated.source)
    for var, func in emulated.mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and str(func.attrs[TEMPLATE]).endswith("_dp4a"):
            assert "__dp4a(" in bodies[f"{var.name_hint}_kernel"].body
