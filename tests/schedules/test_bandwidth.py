"""The loop that measures bandwidth reads everything; how fast it is depends on the computer."""

import numpy as np
import pytest
import tvm

from schedules.bandwidth import CHAINS, LANES, _reading_loop, read_bandwidth
from schedules.targets import native_target

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("threads", "rows"), [(1, 1), (3, 5)])
def test_every_element_is_added_up(threads, rows):
    x = np.random.default_rng(0).integers(-9, 9, (threads, rows, CHAINS, LANES), dtype="int32")
    y = tvm.runtime.tensor(np.ones((threads, LANES), "int32"))
    tvm.compile(_reading_loop(threads, rows), native_target())(tvm.runtime.tensor(x), y)
    np.testing.assert_array_equal(y.numpy(), 1 + x.sum((1, 2)))


def test_bandwidth_is_bytes_a_second():
    """Of a buffer that is no whole number of rows too, and of one that is smaller than a row."""
    for size_bytes in (1, 65_537):
        assert 1e7 < read_bandwidth(size_bytes, 1, native_target()) < 1e14
