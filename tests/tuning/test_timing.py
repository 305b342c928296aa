"""How thoroughly candidates are timed: hopeless ones briefly, finalists in turns, all checked."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from relay_int8.tuning.batch import Batch, Measured, Timing
from relay_int8.tuning.bench import measured
from tests.tuning.fake_device import conv_task

pytestmark = pytest.mark.fast
TIMING = Timing(repeats=5, probes=2)


class Stub:
    """A contender that takes ``each_s`` seconds and notes in ``calls`` when it was timed."""

    def __init__(self, name, each_s, calls, fault):
        self.name, self.each_s, self.calls, self.fault = name, each_s, calls, fault

    def seconds(self, repeats):
        self.calls.append((self.name, repeats))
        return (self.each_s,) * repeats

    def verdict(self, seconds):
        if self.fault:
            return Measured(verdict="wrong", reason=self.fault)
        return Measured(verdict="ok", seconds=tuple(seconds))


def run(times, *, refusals=None, faults=(), **how):
    calls = []
    batch = Batch(
        task=conv_task(), target={}, candidates=(None,) * len(times), timing=TIMING, **how
    )

    def contender(name):
        index = int(name[1:])
        if times[index] is None:
            raise ValueError("no such instruction")
        return Stub(name, times[index], calls, "y[0]" if index in faults else None)

    return list(measured(batch, refusals or [""] * len(times), contender, ValueError)), calls


@pytest.mark.parametrize(
    ("kind", "constant_bytes", "cold"),
    [("llvm", 1 << 18, True), ("llvm", 1 << 17, False), ("cuda", 1 << 22, False)],
)
def test_large_weights_are_cold_as_in_a_network(kind, constant_bytes, cold):
    batch = Batch(task=conv_task(), target={"kind": kind}, candidates=(None,), timing=TIMING)
    given = SimpleNamespace(constant_bytes=constant_bytes)
    assert batch.timing_of(given) == replace(TIMING, flush=cold)
    assert replace(batch, timing=replace(TIMING, flush=True)).timing_of(given).flush


def test_hopeless_candidates_get_no_more_than_the_probes():
    found, calls = run([1.0, 1.2, 1.3], best_s=1.0)
    assert [len(each.seconds) for each in found] == [5, 5, 2]
    assert calls == [("c0", 2), ("c0", 3), ("c1", 2), ("c1", 3), ("c2", 2)]


def test_where_no_best_is_known_all_are_timed_fully():
    found, _ = run([1.0, 100.0])
    assert [len(each.seconds) for each in found] == [5, 5]


def test_wrong_refused_and_failing_ones_are_not_timed():
    found, calls = run([1.0, None, 1.0], refusals=["", "", "too many tiles"], faults=[0])
    assert [each.verdict for each in found] == ["wrong", "failed", "refused"]
    assert [each.reason for each in found] == ["y[0]", "no such instruction", "too many tiles"]
    assert calls == []


def test_in_a_comparison_candidates_take_turns():
    found, calls = run([1.0, 2.0], rounds=3)
    assert [name for name, _ in calls] == ["c0", "c1"] * 3
    assert [each.seconds for each in found] == [(1.0,) * 3, (2.0,) * 3]


def test_a_wrong_one_takes_no_turns():
    found, calls = run([1.0, 2.0], rounds=2, faults=[1])
    assert [each.verdict for each in found] == ["ok", "wrong"]
    assert calls == [("c0", 2), ("c0", 2)]
