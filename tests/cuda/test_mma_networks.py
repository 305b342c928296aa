"""Small networks whose convolutions and dense layers run on tensor cores: equal to the oracle."""

import pytest
from tvm import tirx

from relay_int8.compiler.passes.lower import alter_layout
from relay_int8.graph.attributes import TEMPLATE
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA
from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.selection import select
from tests.cuda.emulator import kernels
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_80
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.small_networks import NETWORKS, any_params

CASES = [("residual", "int8-asymmetric"), *((name, "int8") for name in NETWORKS)]
QUICK = (("residual", "int8-asymmetric"), ("depthwise", "int8"))


def preferring_tensor_cores(spec, target, _measured=None):
    fitting = (
        template
        for template in (CONV2D_MMA, DENSE_MMA)
        if template.kind == spec.kind and template.refuses(spec, target) is None
    )
    return next(fitting, None) or select(spec, target)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "preset"), CASES)
def test_equals_oracle(monkeypatch, full: bool, name: str, preset: str):
    if not full and (name, preset) not in QUICK:
        pytest.skip("needs --full")
    monkeypatch.setattr(alter_layout, "select", preferring_tensor_cores)
    network = QuantizedNetwork.make(NETWORKS[name](), any_params, preset=preset)
    emulated = EmulatedNetwork(network.mod, SM_80)
    assert_found_equals_oracle(network, emulated.run(network.inputs))
    bodies = kernels(emulated.source)
    multiplied = [
        "multiply_" in bodies[f"{var.name_hint}_kernel"].body
        for var, func in emulated.mod.functions_items()
        if isinstance(func, tirx.PrimFunc) and str(func.attrs[TEMPLATE]).endswith("_mma")
    ]
    assert multiplied and all(multiplied)
