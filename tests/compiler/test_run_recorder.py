"""Times of a real library's calls and tasks: their order, and that nothing stays behind."""

import ctypes

import numpy as np
import pytest

from relay_int8.compiler import run_recorder
from relay_int8.compiler.run_recorder import LAUNCHER, record_runs
from relay_int8.runtime.artifact import extracted
from relay_int8.runtime.profiling import random_inputs
from tests.parallel_network import parallel_artifact

pytestmark = pytest.mark.fast

RUNS = 3


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Return a loaded network, its library opened once more, and an input."""
    path = parallel_artifact(tmp_path_factory.mktemp("recorder"))
    with extracted(path) as contents:
        module = contents.module(threads=1)
        return module, ctypes.CDLL(str(contents.library)), random_inputs(contents.manifest.inputs)


def launcher(library):
    return ctypes.c_void_p.in_dll(library, LAUNCHER).value


@pytest.mark.parametrize("listed", [False, True], ids=["machine", "list"])
def test_calls_follow_each_other_and_regions_lie_within_them(network, listed):
    module, library, inputs = network
    expected, before = module.run(inputs)["matmul_6"], launcher(library)
    arguments = module.arguments(inputs)
    found = record_runs(
        module.machine,
        library,
        arguments,
        threads=1,
        runs=RUNS,
        listed=module.noted if listed else None,
    )
    assert any(name.startswith("vm.builtin.") for name in found.names) != listed
    assert (found.calls > 0).all()
    assert launcher(library) == before is not None
    assert found.runs.shape == (RUNS, 2)
    assert found.calls.shape == (RUNS, len(found.names), 2)
    assert len(found.regions) > 0 and len(found.regions) % RUNS == 0
    ticks = np.concatenate([found.runs[:, :1], found.calls.reshape(RUNS, -1), found.runs[:, 1:]], 1)
    assert (np.diff(ticks.ravel()) >= 0).all()
    begun, ended, task_begun, task_ended = found.regions.T
    assert (begun <= task_begun).all() and (task_begun <= task_ended).all()
    assert (task_ended <= ended).all()
    call_ends = found.calls.reshape(-1, 2)
    owners = np.searchsorted(call_ends[:, 0], begun, side="right") - 1
    assert (ended <= call_ends[owners, 1]).all()
    named = np.array(found.names * RUNS)[owners]
    assert not any(name.startswith("vm.builtin.") for name in named)
    np.testing.assert_array_equal(module.run(inputs)["matmul_6"], expected)


def test_full_buffers_lose_times_alone(network, monkeypatch):
    module, library, inputs = network
    expected = module.run(inputs)["matmul_6"]
    monkeypatch.setattr(run_recorder, "MOST_REGIONS", 1)
    found = record_runs(module.machine, library, module.arguments(inputs), threads=1, runs=RUNS)
    assert 0 < len(found.regions) <= RUNS + 1
    np.testing.assert_array_equal(module.run(inputs)["matmul_6"], expected)


def test_a_library_without_parallel_kernels_has_no_regions(network):
    module, _, inputs = network
    other = ctypes.CDLL(None)  # has no such variable
    found = record_runs(module.machine, other, module.arguments(inputs), threads=1, runs=1)
    assert found.regions.shape == (0, 4)
