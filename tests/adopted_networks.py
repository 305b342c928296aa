"""Networks that another tool quantized, with what the oracle computes of them, and the comparison."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from relay_int8.quantization.quantized_model import QuantizedModel
from schedules.targets import TARGETS
from tests import reference
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle, image
from tests.run_built import run_built


def with_oracle(
    adopted: QuantizedModel, inputs: Mapping[str, np.ndarray] | None = None
) -> QuantizedNetwork:
    """Return the network with the oracle's tensors."""
    given = dict(inputs or image(adopted.mod))
    tensors = reference.run(adopted.mod, given)
    return QuantizedNetwork(adopted.mod, adopted.plan, given, tensors)


def run_on(
    adopted: QuantizedModel,
    target: str = "x86",
    inputs: Mapping[str, np.ndarray] | None = None,
    fewest: int = 5,
) -> list[np.ndarray]:
    """Compile, compare integer tensors, ``fewest`` at least, with the oracle; return the outputs."""
    network = with_oracle(adopted, inputs)
    built = compile_module(adopted.mod, Target(TARGETS[target]))
    found = run_built(built, network.inputs)
    assert_found_equals_oracle(network, found, fewest)
    return [array for name, array in found.items() if name.startswith("outputs:")]
