"""A real profile: its structure, not its times, which other processes disturb."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relay_int8
from relay_int8.api import profile as module
from relay_int8.errors import ConfigError
from relay_int8.machine.gpu import GpuNeeds
from relay_int8.report.profile import PARTS
from tests.parallel_network import SHAPE, parallel_artifact

pytestmark = pytest.mark.fast


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Peaks and bandwidths are given: to measure them takes seconds."""
    monkeypatch.setattr(module, "peak", lambda *_: 1e11)
    monkeypatch.setattr(module, "read_bandwidth", lambda *_: 1e10)


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return parallel_artifact(tmp_path_factory.mktemp("profile"), max_batch=4)


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(1).normal(size=SHAPE).astype("float32")


def test_a_profile_adds_up_and_names_the_kernels(network):
    manifest = relay_int8.read_manifest(network)
    found = relay_int8.profile(network, threads=1, repeats=4, batch=2)
    named = {kernel.tensor for kernel in found.kernels}
    computed = {entry.tensor for entry in manifest.kernels if entry.multiplications}
    assert computed and computed <= named
    assert (found.threads, found.batch, found.runs, len(found.workers)) == (1, 2, 2, 1)
    assert sum(found.parts_ms.values()) == pytest.approx(found.total_ms)
    for kernel in found.kernels:
        assert kernel.total_ms > 0
        assert all(getattr(kernel, f"{part}_ms") >= 0 for part in PARTS)
    for kernel in found.kernels:
        entry = next((each for each in manifest.kernels if each.tensor == kernel.tensor), None)
        assert entry is None or kernel.multiplications % 2 == 0
    assert found.workers[0].busy_ms > 0


def test_results_are_the_same_afterwards(network, image):
    before = relay_int8.load(network).run(image)["matmul_6"]
    three = np.repeat(image, 3, axis=0)
    found = relay_int8.profile(network, threads=1, repeats=1, inputs=three)
    assert (found.batch, found.runs) == (3, 1)
    np.testing.assert_array_equal(relay_int8.load(network).run(image)["matmul_6"], before)


def test_the_manifest_says_what_kernels_do(network):
    manifest = relay_int8.read_manifest(network)
    weights = sum(entry.constant_bytes for entry in manifest.kernels)
    assert 0 < weights <= manifest.memory["constant_bytes"] * 2
    assert manifest.memory["activation_bytes"] > 0
    assert {entry.arithmetic for entry in manifest.kernels} <= {"int8", "float32"}


def test_two_threads_have_clocks_of_their_own(network):
    """In a process of its own: the runtime's pool never grows."""
    code = """
import json, sys
import relay_int8
from relay_int8.api import profile as module
module.peak = lambda *_: 1e11
module.read_bandwidth = lambda *_: 1e10
print(relay_int8.profile(sys.argv[1], threads=2, repeats=4).to_json())
"""
    root = Path(relay_int8.__file__).parents[1]
    command = [sys.executable, "-c", code, str(network)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    found = json.loads(done.stdout)
    first, second = found["workers"]
    assert found["threads"] == 2
    assert first["busy_ms"] > 0 and second["busy_ms"] > 0
    waiting = found["parts_ms"]["waiting"]
    assert 0 <= waiting <= (first["waiting_ms"] + second["waiting_ms"]) / 2 + 1e-9


def test_what_cannot_be_profiled(network, monkeypatch):
    with pytest.raises(ConfigError, match="0 runs to record"):
        relay_int8.profile(network, repeats=0)
    closed = dataclasses.replace(relay_int8.read_manifest(network), max_batch=None)
    with pytest.raises(ConfigError, match="was built for one batch, batch 2 is asked for"):
        module._check(network, closed, 2)
    needs = GpuNeeds(
        architectures=("sm_80",), ptx_architecture="sm_80", ptx_version="9", driver="13.0",
        memory_bytes=1,
    )  # fmt: skip
    manifest = relay_int8.read_manifest(network)
    object.__setattr__(manifest, "gpu", needs)
    with pytest.raises(ConfigError, match=r"runs on a GPU.*bench times whole runs"):
        module._check(network, manifest, 1)


def test_sizes_of_buffers_end_with_one_that_holds_everything():
    assert module._sizes(1) == [1 << 16]
    assert module._sizes((1 << 18) + 1) == [1 << 16, 1 << 18, 1 << 20]
    assert module._sizes(1 << 40)[-1] == module.MOST_BYTES
