"""Kernels for GPUs are measured on a GPU that is none: right ones get times, wrong ones do not."""

import json
import os
import re
import subprocess
import sys
from unittest.mock import patch

import pytest

from relay_int8 import ImportOptions, load_model
from relay_int8.demo import MODEL
from relay_int8.errors import ConfigError, DeployError
from relay_int8.remote.address import Address, Endpoint
from relay_int8.tuning.batch import Batch, Timing
from relay_int8.tuning.bench import compile_batch
from relay_int8.tuning.device_fault import fault_of
from relay_int8.tuning.local_measurer import LocalMeasurer
from relay_int8.tuning.measurer import ROUNDS, MeasuringDevice
from relay_int8.tuning.network import network_tasks
from relay_int8.tuning.remote_measurer import RemoteMeasurer
from relay_int8.tuning.remote_worker import SessionLost
from relay_int8.tuning.session import TuneOptions, obstacle, tune_tasks
from schedules.space import first
from schedules.targets import named_target, target_config
from tests.benchmarks.gpu.fake_clock import with_clock
from tests.cuda.fake_gpu import FakeGpu, noted_sources
from tests.nvidia import needs_compiler
from tests.remote.processes import server

pytestmark = needs_compiler
MEASURE = """
import json, sys
from relay_int8.tuning.batch import Timing
from relay_int8.tuning.local_measurer import LocalMeasurer
from relay_int8.tuning.session import obstacle
from schedules.task import Task
from schedules.targets import named_target, target_config

if __name__ == "__main__":
    key, candidates = json.loads(sys.argv[1])
    target = named_target("sm_80")
    assert obstacle(target) is None
    timing = Timing(repeats=2, repeat_ms=1)
    with LocalMeasurer(target_config(target), timing=timing, workers=2) as measurer:
        place = measurer.describe().name
        found = measurer.measure(Task.from_key(key, 1), candidates)
    print(json.dumps([place, [[one.verdict, len(one.seconds)] for one in found]]))
"""


@pytest.fixture(scope="module")
def batch():
    """Return the default schedule of a convolution and the first of its space."""
    target = named_target("sm_80")
    tasks = network_tasks(load_model(MODEL, ImportOptions(batch=1)).module, target)
    task = next(task for task in tasks if task.template.startswith("conv2d_"))
    candidates = (None, first(task.kernel(target)).choices)
    return Batch(task=task, target=target_config(target), candidates=candidates)


@pytest.fixture(scope="module")
def source(batch):
    """Return the CUDA C of both."""
    with noted_sources() as found:
        compile_batch(batch)
    return found[0]


def measured(gpu, batch, flush=False, **variables):
    """Return (verdict, number of times, reason) of each; this process does not see the GPU."""
    timing = Timing(repeats=2, repeat_ms=1, flush=flush)
    with (
        patch.dict(os.environ, gpu.environment() | variables),
        patch.object(sys, "path", [str(gpu.site), *sys.path]),  # which processes are given
        LocalMeasurer(batch.target, timing=timing, workers=1) as measurer,
    ):
        found = measurer.measure(batch.task, batch.candidates)
        if flush:
            found = measurer.compare(batch.task, batch.candidates)
    return [(one.verdict, len(one.seconds), one.reason) for one in found]


@pytest.fixture(scope="module")
def right(source, tmp_path_factory):
    """Return a GPU that runs both."""
    return with_clock(FakeGpu.make(tmp_path_factory.mktemp("gpu") / "right", source))


def test_right_candidates_have_times_on_a_gpu_that_allows_one_context(batch, right, tmp_path):
    """Two processes compile: for either, its candidate is the first, so both are the default."""
    exclusive = {"FAKE_CUDA_EXCLUSIVE": str(tmp_path / "context")}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps([batch.task.key, [None, None]])],
        env=os.environ | right.environment() | exclusive,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    place, found = json.loads(done.stdout)
    assert place == "Fake GPU"
    assert found == [["ok", 2], ["ok", 2]]


def test_with_empty_caches(batch, right):
    found = measured(right, batch, flush=True)
    assert [one[:2] for one in found] == [("ok", ROUNDS), ("ok", ROUNDS)]


def test_candidates_that_are_wrong_or_fail_have_none(batch, source, tmp_path):
    wrong, count = re.subn(r"(c0_kernel\([^{]*\{)", r"\1 return;", source)
    assert count
    found = measured(with_clock(FakeGpu.make(tmp_path / "wrong", wrong)), batch)
    assert [one[:2] for one in found] == [("wrong", 0), ("ok", 2)]
    assert "outputs are wrong" in found[0][2]
    # A context is given up after an error; the second candidate, measured alone then, is c0 as well.
    absent = source.replace("c0_kernel", "other_kernel")
    found = measured(FakeGpu.make(tmp_path / "absent", absent), batch)
    assert [one[:2] for one in found] == [("failed", 0), ("failed", 0)]


def test_a_gpu_that_cannot_be_used_stops_the_run(batch, right):
    with pytest.raises(
        DeployError, match=r"GPU: .*out of memory.*; end what else .* TuneOptions\(resume"
    ):
        measured(right, batch, FAKE_CUDA_MEMORY_BYTES="100")


@pytest.fixture
def device(right, tmp_path, monkeypatch):
    """Return where a computer with the GPU serves."""
    for name, value in right.environment().items():
        monkeypatch.setenv(name, value)
    with server(tmp_path) as served:
        served.wait_until_serving()
        yield Endpoint(address=served.address)


def test_over_rpc(batch, device):
    timing = Timing(repeats=2, repeat_ms=1)
    with RemoteMeasurer(batch.target, device, timing=timing) as measurer:
        assert measurer.describe() == MeasuringDevice(name="Fake GPU", multiprocessors=2)
        apart = measurer.measure(batch.task, batch.candidates)
        both = measurer.compare(batch.task, batch.candidates)
    assert [(each.verdict, len(each.seconds)) for each in apart] == [("ok", 2)] * 2
    assert [(each.verdict, len(each.seconds)) for each in both] == [("ok", ROUNDS)] * 2


@pytest.mark.fast
@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("CUDA: out of memory", "end what else holds its memory"),
        ("cuModuleLoadData(...) failed with error: CUDA_ERROR_OUT_OF_MEMORY", "its memory"),
        ("CUDA: CUDA-capable device(s) is/are busy or unavailable", "nvidia-smi -c DEFAULT"),
        ("CUDA: all CUDA-capable devices are busy or unavailable", "nvidia-smi -c DEFAULT"),
        ("CUDA: no CUDA-capable device is detected", "CUDA_VISIBLE_DEVICES"),
        ("CUDALaunch Error: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", None),
        ("CUDA: an illegal memory access was encountered", None),
    ],
)
def test_what_no_candidate_is_to_blame_for(message, remedy):
    fault = fault_of(f"Traceback\n{message}\nat home")
    assert fault is None if remedy is None else fault and re.search(remedy, fault.reason)


@pytest.mark.fast
def test_a_gpu_of_another_computer_that_cannot_be_used_stops_the_run():
    endpoint = Endpoint(address=Address("127.0.0.1", 9090))
    measurer = RemoteMeasurer(target_config(named_target("sm_80")), endpoint)
    with pytest.raises(
        DeployError, match=r"9090: CUDA: out of memory; .* go on with TuneOptions\(resume"
    ):
        measurer._lost(SessionLost("CUDA: out of memory; end it"))
    assert measurer._lost(SessionLost("connection reset")).verdict == "lost"


@pytest.mark.fast
def test_another_computers_gpu_is_not_flushed():
    endpoint = Endpoint(address=Address("127.0.0.1", 9090))
    options = TuneOptions(rack=endpoint, timing=Timing(flush=True))
    with pytest.raises(
        ConfigError, match=r"cache of another computer's GPU .*; leave Timing\(flush=True\) out"
    ):
        tune_tasks((), named_target("sm_80"), "net", options)


@pytest.mark.fast
def test_what_this_computer_cannot_run_is_said():
    assert obstacle(named_target("x86")) is None
    assert "sm_80" in obstacle(named_target("sm_80"))
