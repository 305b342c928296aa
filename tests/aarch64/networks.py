"""A float network, quantized, cross-built, run by qemu and compared with the oracle."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph.requantize import with_requantize
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.rounding import Requantize
from tests import reference
from tests.aarch64.emulator import Emulator
from tests.small_networks import any_params, images


def assert_equals_oracle(
    mod: tvm.IRModule,
    emulator: Emulator,
    target: Target,
    *,
    preset: str = "int8",
    requantize: Requantize = "float",
) -> set[str]:
    """Every product is of integers, and the integers of every result are the oracle's.

    Returns the templates of its kernels.
    """
    plan = annotate(mod, QuantConfig(preset=preset))
    assert [layer for layer in plan.layers if layer.macs and not layer.integer] == []
    qdq = with_requantize(InsertQdq(plan, any_params(plan))(mod), requantize)
    x = images(mod)[0]
    built = compile_module(qdq, target)
    found = emulator.run(built, [x])
    expected = reference.run(qdq, {"x": x})
    names = reference.output_names(qdq, {"x": x})
    for name, actual in zip(names, found, strict=True):
        assert np.unique(actual).size > 3, name
        np.testing.assert_array_equal(actual, expected[name], err_msg=name)
    return {call.template for call in built.calls}
