"""Concatenation in NumPy, of many images."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.graph.groups import find_groups
from relay_int8.operators.registry import operator_of
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def test_what_is_made_of_constants_joins_every_image():
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 3, 1), net.conv("b", net.x, 2, 1)
    mod = net.module(net.emit("y", relax.op.concat([a, b], axis=1)))
    group = next(group for group in find_groups(mod["main"]) if group.kind == "concat")
    images, once = np.ones((4, 3, 2, 2), np.float32), np.full((1, 2, 2, 2), 7, np.float32)
    found = operator_of(group).evaluate(group, [images, once])
    expected = np.concatenate([images, np.repeat(once, 4, axis=0)], axis=1)
    np.testing.assert_array_equal(found, expected)
