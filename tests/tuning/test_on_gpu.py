"""Kernels for GPUs are measured on a GPU that is none: right ones get times, wrong ones do not."""

import importlib.util
import json
import os
import re
import subprocess
import sys

import pytest

from relay_int8 import ImportOptions, load_model
from relay_int8.demo import MODEL
from relay_int8.tuning.bench import Batch, compile_batch
from relay_int8.tuning.network import network_tasks
from relay_int8.tuning.session import obstacle
from schedules.space import first
from schedules.targets import named_target, target_config
from tests.cuda.fake_gpu import FakeGpu, noted_sources

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None, reason="needs NVIDIA's compilers, of the extra cuda"
)
MEASURE = """
import json, sys
from relay_int8.tuning.bench import Timing
from relay_int8.tuning.measure import LocalMeasurer
from relay_int8.tuning.session import obstacle
from schedules.task import Task
from schedules.targets import named_target, target_config

if __name__ == "__main__":
    key, choices = json.loads(sys.argv[1])
    target = named_target("sm_80")
    assert obstacle(target) is None
    candidates = [None, tuple(tuple(c) if isinstance(c, list) else c for c in choices)]
    timing = Timing(repeats=2, repeat_ms=1)
    with LocalMeasurer(target_config(target), timing=timing, workers=1) as measurer:
        place = measurer.describe().name
        found = measurer.measure(Task.from_key(key, 1), candidates)
    print(json.dumps([place, [[one.verdict, len(one.seconds), one.reason] for one in found]]))
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


def measured(gpu, batch):
    """Return the place and (verdict, number of times, reason) of each, from a process of its own."""
    given = json.dumps([batch.task.key, batch.candidates[1]])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, given],
        env=os.environ | gpu.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_right_candidates_have_times(batch, source, tmp_path):
    place, found = measured(FakeGpu.make(tmp_path / "right", source), batch)
    assert place == "Fake GPU"
    assert [one[:2] for one in found] == [["ok", 2], ["ok", 2]]


def test_candidates_that_are_wrong_or_fail_have_none(batch, source, tmp_path):
    wrong, count = re.subn(r"(c0_kernel\([^{]*\{)", r"\1 return;", source)
    assert count
    _, found = measured(FakeGpu.make(tmp_path / "wrong", wrong), batch)
    assert [one[:2] for one in found] == [["wrong", 0], ["ok", 2]]
    assert "outputs are wrong" in found[0][2]
    # A context is given up after an error; the second candidate, measured alone then, is c0 as well.
    absent = source.replace("c0_kernel", "other_kernel")
    _, found = measured(FakeGpu.make(tmp_path / "absent", absent), batch)
    assert [one[:2] for one in found] == [["failed", 0], ["failed", 0]]


@pytest.mark.fast
def test_what_this_computer_cannot_run_is_said():
    assert obstacle(named_target("x86")) is None
    assert "sm_80" in obstacle(named_target("sm_80"))
