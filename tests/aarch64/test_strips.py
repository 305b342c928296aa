"""Depthwise and small groups on sdot and usdot: the kernels' instructions, and their integers."""

import numpy as np
import pytest
import tvm
from tvm.target import Target

from schedules.arm.strips import DEPTHWISE_SDOT, DEPTHWISE_USDOT, GROUPED_SDOT, GROUPED_USDOT
from tests.aarch64.test_dot_products import ARM, TARGET, network, scheduled
from tests.schedules.conv_runs import conv
from tests.schedules.numpy_kernels import random_arrays, reference

KERNELS = {
    "depthwise_sdot": (DEPTHWISE_SDOT, conv(20, (5, 6), x="int8", y="int8")),
    "depthwise_usdot": (DEPTHWISE_USDOT, conv(16, (4, 3), strides=(2, 1), residual="uint8")),
    "grouped_sdot": (GROUPED_SDOT, conv(24, (3, 4), groups=3, x="int8", y="int8")),
    "grouped_usdot": (GROUPED_USDOT, conv(20, (3, 4), groups=5, y="float32")),
}


@pytest.mark.parametrize("name", KERNELS)
def test_integers(name, emulator):
    template, spec = KERNELS[name]
    assert template.refuses(spec, TARGET) is None
    arrays = random_arrays(spec, np.random.default_rng(1))
    layouts = template.layouts(spec, None)
    inputs = [
        layout.pack(arrays[name]) for name, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    (y,) = emulator.run(network(template, spec, arrays), inputs)
    np.testing.assert_array_equal(
        layouts.output.unpack(y, spec.shape("y")), reference(spec, arrays)
    )


@pytest.mark.fast
@pytest.mark.parametrize("name", KERNELS)
def test_instruction(name):
    template, spec = KERNELS[name]
    main = template.finish(scheduled(template, spec).mod["main"]).with_attr("global_symbol", "main")
    assembly = tvm.compile(tvm.IRModule({"main": main}), target=TARGET).mod.inspect_source("asm")
    assert "dot\t" in assembly  # LLVM may turn usdot into sudot by element


@pytest.mark.fast
def test_refuses_older_cpus():
    template, spec = KERNELS["depthwise_sdot"]
    assert template.refuses(spec, Target(ARM)) == "target cpu generic lacks dotprod"
