"""ScaleResults: tensors get a factor of each channel, and keep their names."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.qdq.scale_results import ScaleResults
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast
FACTORS = np.float32([1, 4]).reshape(2, 1, 1)


def network(*, is_scaled: bool) -> tvm.IRModule:
    """Return conv -> swish (times factors) -> depthwise."""
    net = NetworkWriter((1, 3, 4, 4))
    a = net.conv("a/conv", net.x, 2, 1)
    if is_scaled:
        unscaled = net.emit("a:unscaled", nn.silu(a))
        a = net.emit("a", relax.op.multiply(unscaled, relax.const(FACTORS)))
    else:
        a = net.emit("a", nn.silu(a))
    return net.module(net.conv("b", a, 2, 3, groups=2))


def test_a_tensor_is_multiplied(expect_rewrite):
    expect_rewrite(ScaleResults({"a": FACTORS}), network(is_scaled=False), network(is_scaled=True))


def test_without_factors_nothing_changes(expect_rewrite):
    mod = network(is_scaled=False)
    expect_rewrite(ScaleResults({}), mod, mod)
