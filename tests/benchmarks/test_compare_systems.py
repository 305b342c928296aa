import os

import pytest

from benchmarks.compare_systems import cores_for

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("threads", "cores"), [(1, (9,)), (2, (2, 3)), (4, (2, 3, 5, 9))])
def test_cores_are_those_the_process_may_use(threads, cores, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {9, 2, 5, 3})
    assert cores_for(threads) == cores
