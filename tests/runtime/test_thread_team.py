"""Runs by a team of threads: the same results, TVM's launcher where there is no team."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tvm_ffi

import relay_int8
from relay_int8.runtime.profiling import random_inputs
from relay_int8.runtime.thread_team import INSTALL, RUN, in_team
from tests.parallel_network import parallel_artifact

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    return parallel_artifact(tmp_path_factory.mktemp("team"))


def plain(module, inputs):
    """Return the output of the machine's own ``main``, whose loops TVM launches."""
    return np.from_dlpack(module.machine["main"](*module.arguments(inputs)))


def test_one_thread_is_a_team(artifact):
    module = relay_int8.load(artifact, threads=1)
    inputs = random_inputs(module.manifest.inputs)
    assert module.main != module.machine["main"]
    (output,) = module.run(inputs).values()
    np.testing.assert_array_equal(output, plain(module, inputs))


def test_several_threads(artifact):
    """In a process of its own: the runtime's pool never grows."""
    code = """
import sys, threading
import numpy as np
import relay_int8
from relay_int8.runtime.profiling import random_inputs

module = relay_int8.load(sys.argv[1], threads=int(sys.argv[2]))
inputs = random_inputs(module.manifest.inputs)
expected = module.machine["main"](*module.arguments(inputs))
expected = np.from_dlpack(expected)
for _ in range(50):
    (output,) = module.run(inputs).values()
    np.testing.assert_array_equal(output, expected)

def in_another_thread():
    twin = module.twin()
    for _ in range(20):
        (output,) = twin.run(inputs).values()
        np.testing.assert_array_equal(output, expected)
    passed.append(True)

passed = []
threads = [threading.Thread(target=in_another_thread) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(passed) == 2
"""
    root = Path(relay_int8.__file__).parents[1]
    for threads in ("2", "3"):
        command = [sys.executable, "-c", code, str(artifact), threads]
        subprocess.run(command, check=True, cwd=root, timeout=120)


def test_an_error_of_the_run_is_raised(artifact):
    module = relay_int8.load(artifact, threads=1)
    inputs = random_inputs(module.manifest.inputs)
    with pytest.raises(Exception, match=r"num_args|arguments|expect"):
        module.main()
    module.run(inputs)


def test_what_python_raises_inside_comes_out(artifact):
    module = relay_int8.load(artifact, threads=1)
    inputs = random_inputs(module.manifest.inputs)

    def _stop(*_values):
        raise KeyError("stopped")

    module.machine["set_instrument"](tvm_ffi.convert(_stop))
    with pytest.raises(KeyError, match="stopped"):
        module.main(*module.arguments(inputs))
    module.machine["set_instrument"](None)
    module.run(inputs)


def test_a_run_within_a_run_is_of_the_same_team(artifact):
    outer = relay_int8.load(artifact, threads=1)
    inner = outer.twin()
    inputs = random_inputs(outer.manifest.inputs)
    (expected,) = outer.run(inputs).values()
    seen = []

    def _run_other(*_values):
        if not seen:
            seen.append(None)
            seen[0] = inner.run(inputs)

    outer.machine["set_instrument"](tvm_ffi.convert(_run_other))
    output = outer.main(*outer.arguments(inputs))
    outer.machine["set_instrument"](None)
    np.testing.assert_array_equal(np.from_dlpack(output), expected)
    np.testing.assert_array_equal(next(iter(seen[0].values())), expected)


class _Library:
    """A library of functions that note their calls."""

    def __init__(self, *names, installed=True):
        self._names, self._installed = names, installed

    def implements_function(self, name, query_imports):
        return name in self._names

    def get_function(self, name, query_imports):
        return (lambda: self._installed) if name == INSTALL else lambda main, *rest: main(*rest)


def test_without_the_code_main_is_called_itself():
    assert in_team(_Library(), sum) is sum
    assert in_team(_Library(INSTALL, RUN, installed=False), sum) is sum
    assert in_team(_Library(INSTALL, RUN), sum)([1, 2]) == 3
