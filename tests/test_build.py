"""Build: kernels of every target give the oracle's integers, tensor by tensor."""

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.annotate import annotate
from relay_int8.build import compile_module
from relay_int8.config import QuantConfig
from relay_int8.passes.insert_qdq import InsertQdq
from schedules.targets import TARGETS
from tests import reference
from tests.run_built import run_built
from tests.small_networks import NETWORKS, any_params, images

X86 = [
    pytest.param("x86-vnni", marks=pytest.mark.isa("avx512_vnni")),
    pytest.param("x86-avx2", marks=pytest.mark.isa("avx2")),
    "x86",
]


def assert_equals_oracle(qdq: tvm.IRModule, target: Target, x: np.ndarray) -> None:
    """Compare every integer tensor and every output with ``==``."""
    expected = reference.run(qdq, {"x": x})
    found = run_built(compile_module(qdq, target), {"x": x})
    compared = 0
    for name, wanted in expected.items():
        tensor = name.removesuffix(":q")
        actual = found.get(f"{tensor}:int", found.get(tensor))
        if not name.endswith(":q") or actual is None:
            continue
        if wanted.dtype == np.int8 and actual.dtype == np.uint8:
            wanted = (wanted.astype(np.int16) + 128).astype(np.uint8)
        np.testing.assert_array_equal(actual, wanted, err_msg=name)
        compared += 1
    assert compared > 4
    for place, name in enumerate(reference.output_names(qdq, {"x": x})):
        np.testing.assert_array_equal(found[f"outputs:{place}"], expected[name], err_msg=name)


@pytest.mark.parametrize("preset", ["int8", "int8-asymmetric"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("target", X86)
def test_equals_oracle(target: str, name: str, preset: str):
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig(preset=preset))
    qdq = InsertQdq(plan, any_params(plan))(mod)
    assert_equals_oracle(qdq, Target(TARGETS[target]), images(mod)[0])
