"""ReplaceSplit: parts become slices with the same numbers."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.replace_split import ReplaceSplit
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("sections", [3, [1, 4]])
def test_split_becomes_slices(sections):
    net = NetworkWriter((1, 6, 4, 4))
    parts = net.emit("parts", relax.op.split(net.x, sections, axis=1))
    y = net.emit("y", relax.TupleGetItem(parts, 1))
    z = net.emit("z", relax.TupleGetItem(parts, 2))
    mod = net.module(y, z)
    after = ReplaceSplit()(mod)
    assert [operator(value) for _, value in calls(after["main"])] == ["strided_slice"] * 2
    x = np.arange(96, dtype="float32").reshape(1, 6, 4, 4)
    for found, wanted in zip(run_relax(after, x), run_relax(mod, x), strict=True):
        np.testing.assert_array_equal(found, wanted)
