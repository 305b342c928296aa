"""What is read from a function is kept within a scope, and no longer."""

import pytest

from relay_int8.graph.dataflow import calls, consumers
from relay_int8.graph.groups import find_groups
from relay_int8.graph.readings import FUNCTIONS, keeping_readings, kept
from tests.small_networks import depthwise

pytestmark = pytest.mark.fast


@pytest.fixture
def func():
    return depthwise()["main"]


def test_a_scope_reads_a_function_once(func):
    assert consumers(func) is not consumers(func)
    with keeping_readings():
        first = consumers(func)
        with keeping_readings():
            assert consumers(func) is first
        assert consumers(func) is first
        assert [var for var, _ in calls(func)] == list(first)[len(func.params) :]
    assert consumers(func) is not first


def test_arguments_count(func):
    with keeping_readings():
        names = [group.name for group in find_groups(func)]
        assert "s" in names
        assert [group.name for group in find_groups(func, {"s"})] != names
        groups = find_groups(func)
        groups.clear()  # the caller's own list
        assert [group.name for group in find_groups(func)] == names


def test_only_the_last_functions_are_kept():
    reads = []

    @kept
    def read(func):
        reads.append(func)
        return len(reads)

    functions = [depthwise()["main"] for _ in range(FUNCTIONS + 1)]
    with keeping_readings():
        for func in functions:
            read(func)
        assert read(functions[-1]) == FUNCTIONS + 1
        assert len(reads) == FUNCTIONS + 1
        read(functions[0])
        assert len(reads) == FUNCTIONS + 2
