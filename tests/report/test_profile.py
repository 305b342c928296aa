"""The parts of a profile, of times that are made up: they add up, and none is negative."""

import numpy as np
import pytest

from relay_int8.compiler.run_recorder import Recording
from relay_int8.report.profile import PARTS, Rates
from relay_int8.report.profile_parts import footprint_bytes, profile_of
from relay_int8.runtime.kernel_entry import KernelEntry

pytestmark = pytest.mark.fast

MS = 1_000_000  # nanoseconds
RATES = Rates(
    instruction="made up",
    peak_macs_s={"int8": 1e9, "float32": 1e8},
    bandwidths={1000: 1e9, 1_000_000: 1e8},
)


def recording(names, calls_ms, regions_ms=(), *, threads=1, runs=1, tail_ms=0.0):
    """Return runs that are all the same but for when they start, each beginning at its second 0."""
    calls = np.array(calls_ms, float).reshape(1, -1, 2)
    regions = np.array(regions_ms, float).reshape(-1, 2 + 2 * threads)
    starts = 1000.0 * np.arange(1, runs + 1)
    shifted = [np.where(regions > 0, regions + start, 0) for start in starts]
    ends = calls.max() + tail_ms
    return Recording(
        names=tuple(names),
        runs=(np.stack([starts, starts + ends], axis=1) * MS).astype(np.int64),
        calls=((calls + starts[:, None, None]) * MS).astype(np.int64),
        regions=(np.concatenate(shifted) * MS).astype(np.int64),
    )


def profiled(recorded, entries, *, threads=1):
    found = profile_of(recorded, entries, RATES, threads=threads, batch=1, undisturbed_ms=1.0)
    for kernel in found.kernels:
        assert all(getattr(kernel, f"{part}_ms") >= 0 for part in PARTS), kernel
    assert found.total_ms == pytest.approx(
        sum(kernel.total_ms for kernel in found.kernels) + found.between_ms
    )
    return found


def parts(kernel):
    return [pytest.approx(getattr(kernel, f"{part}_ms"), abs=1e-9) for part in PARTS]


def test_products_memory_and_the_rest_of_a_kernel_without_threads():
    """3 ms: 1 million products take 1; 100 kB of activations take 1 beside, constants 1 more."""
    entry = KernelEntry(
        function="f",
        name="y",
        tensor="y",
        multiplications=1_000_000,
        activation_bytes=100_000,
        constant_bytes=100_000,
    )
    found = profiled(recording(["f"], [(0, 3)]), [entry])
    (kernel,) = found.kernels
    assert parts(kernel) == [1, 0, 1, 1]
    assert (kernel.tensor, kernel.kernel) == ("y", "f")
    assert found.share_of_peak == pytest.approx(1 / 3)


def test_what_is_hidden_behind_products_is_no_memory():
    entry = KernelEntry(
        function="f", name="y", tensor="y", multiplications=2_000_000, activation_bytes=100_000
    )
    (kernel,) = profiled(recording(["f"], [(0, 3)]), [entry]).kernels
    assert parts(kernel) == [2, 0, 0, 1]


@pytest.mark.parametrize(
    ("multiplications", "activation_bytes", "expected"),
    [(9_000_000, 0, [3, 0, 0, 0]), (1_000_000, 900_000, [1, 0, 2, 0])],
)
def test_no_part_is_more_than_there_is(multiplications, activation_bytes, expected):
    """A kernel may be faster than what was measured: caches, clocks."""
    entry = KernelEntry(
        function="f",
        name="y",
        tensor="y",
        multiplications=multiplications,
        activation_bytes=activation_bytes,
    )
    (kernel,) = profiled(recording(["f"], [(0, 3)]), [entry]).kernels
    assert parts(kernel) == expected


def test_waiting_is_what_threads_are_not_busy():
    """10 ms, of which the first is alone; then tasks of 8 and 4 in a region of 9."""
    region = [1, 10, 1.5, 9.5, 2, 6]
    found = profiled(recording(["f"], [(0, 10)], [region], threads=2), [], threads=2)
    (kernel,) = found.kernels
    assert parts(kernel) == [0, 10 - (9 + 4) / 2, 0, (9 + 4) / 2]
    assert [(w.busy_ms, w.waiting_ms) for w in found.workers] == [
        pytest.approx((9, 1)),
        pytest.approx((4, 6)),
    ]


def test_threads_without_a_task_wait():
    region = [0, 4, 0, 4, 0, 0]
    found = profiled(recording(["f"], [(0, 4)], [region], threads=2, runs=3), [], threads=2)
    assert [(w.busy_ms, w.waiting_ms) for w in found.workers] == [
        pytest.approx((4, 0)),
        pytest.approx((0, 4)),
    ]


def test_regions_belong_to_the_kernel_they_began_in():
    calls = [(0, 2), (2, 3), (3, 7)]
    regions = [[0.5, 1, 0.5, 1, 0.5, 1], [3, 5, 3, 5, 3, 5], [5, 7, 5, 7, 5, 7]]
    names = ["f", "vm.builtin.reshape", "g"]
    found = profiled(recording(names, calls, regions, threads=2, runs=2), [], threads=2)
    assert [kernel.waiting_ms for kernel in found.kernels] == [pytest.approx(0.75), 0]
    assert found.between_ms == pytest.approx(1)


def test_what_is_no_kernel_is_between_them():
    """The virtual machine's own calls, what is before and behind them, and after the last."""
    names = ["vm.builtin.alloc_storage", "f", "vm.builtin.reshape", "g"]
    found = profiled(recording(names, [(1, 2), (3, 5), (5, 6), (6, 9)], tail_ms=1), [])
    assert [kernel.tensor for kernel in found.kernels] == ["f", "g"]
    assert found.total_ms == pytest.approx(10)
    assert found.between_ms == pytest.approx(5)


def test_entries_are_found_in_order_views_and_strangers_left_out():
    entries = [
        KernelEntry(function="f", name="first", tensor="first"),
        KernelEntry(function="g", name="a view", tensor="a view"),
        KernelEntry(function="f", name="second", tensor="second"),
    ]
    found = profiled(recording(["f", "shape_func", "f"], [(0, 1), (1, 2), (2, 3)]), entries)
    assert [kernel.tensor for kernel in found.kernels] == ["first", "shape_func", "second"]


def test_an_open_batch_counts_images_and_reads_weights_once():
    entry = KernelEntry(
        function="f",
        name="y",
        tensor="y",
        multiplications=10,
        activation_bytes=100,
        constant_bytes=7,
    ).of_images(3)
    found = profiled(recording(["f"], [(0, 1)]), [entry])
    (kernel,) = found.kernels
    assert (kernel.multiplications, kernel.activation_bytes, kernel.constant_bytes) == (30, 300, 7)
    assert footprint_bytes([entry, entry]) == 14 + 300


def test_floats_have_a_peak_of_their_own():
    entry = KernelEntry(
        function="f", name="y", tensor="y", multiplications=100_000, arithmetic="float32"
    )
    (kernel,) = profiled(recording(["f"], [(0, 3)]), [entry]).kernels
    assert parts(kernel) == [1, 0, 0, 2]


def test_the_half_around_the_median_counts():
    recorded = recording(["f"], [(0, 4)], runs=8)
    recorded.runs[:2, 1] += 100 * MS  # two slow ones
    recorded.calls[:2, :, 1] += 100 * MS
    recorded.calls[2:4, :, 1] -= 3 * MS  # and two fast ones
    recorded.runs[2:4, 1] -= 3 * MS
    found = profiled(recorded, [])
    assert (found.runs, found.total_ms) == (4, pytest.approx(4))


@pytest.mark.parametrize(("size_bytes", "rate"), [(0, 1e9), (1000, 1e9), (1001, 1e8), (10**9, 1e8)])
def test_bandwidth_of_the_smallest_buffer_with_room(size_bytes, rate):
    assert RATES.bandwidth(size_bytes) == rate


def test_plain_values_have_the_sums():
    found = profiled(
        recording(["f"], [(0, 3)], tail_ms=1), [KernelEntry(function="f", name="y", tensor="y")]
    )
    values = found.to_dict()
    assert values["total_ms"] == pytest.approx(4)
    assert sum(values["parts_ms"].values()) == pytest.approx(4)
    assert values["kernels"][0]["total_ms"] == pytest.approx(3)
    assert '"tensor": "y"' in found.to_json()
    assert repr(found).startswith("<Profile on 1 threads: 4.000 ms = products 0.000, ")
