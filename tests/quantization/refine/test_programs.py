"""Programs of groups that NumPy does not compute: each is compiled once in a context."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.quantization.refine import programs
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.programs import sharing_programs
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
F = np.float32


@pytest.fixture
def compilations(monkeypatch):
    """The networks that are compiled."""
    compiled, linked = [], programs.linked
    monkeypatch.setattr(
        programs,
        "linked",
        lambda mod, *args, **kw: compiled.append(mod) or linked(mod, *args, **kw),
    )
    return compiled


def norm(gain, name="y"):
    """A layer norm of images of four numbers, as a network computes it."""
    net = NetworkWriter((1, 4))
    gains, zeros = relax.const(np.full(4, gain, F)), relax.const(np.zeros(4, F))
    mod = net.module(net.emit(name, relax.op.nn.layer_norm(net.x, gains, zeros, axes=[-1])))
    network = NumpyNetwork(mod)
    return lambda x: network.run({"x": x})[name]


def wanted(x, gain):
    return gain * (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


X = np.arange(8, dtype=F).reshape(2, 4) ** 2


def test_networks_of_one_context_share_programs_whatever_their_tensors_are_called(compilations):
    with sharing_programs(), sharing_programs():
        for name in ("y", "z"):
            np.testing.assert_allclose(norm(2, name)(X), wanted(X, 2), rtol=1e-5)
    assert len(compilations) == 1
    with sharing_programs():
        norm(2)(X)
    assert len(compilations) == 2
    norm(2)(X), norm(2)(X)
    assert len(compilations) == 4


def test_other_constants_are_another_program(compilations):
    with sharing_programs():
        for gain in (2, 3):
            np.testing.assert_allclose(norm(gain)(X), wanted(X, gain), rtol=1e-5)
    assert len(compilations) == 2


def test_threads_share_those_of_the_caller(compilations):
    with sharing_programs():
        results = in_parallel(lambda gain: norm(gain)(X), [2, 2, 2])
    for result in results:
        np.testing.assert_allclose(result, wanted(X, 2), rtol=1e-5)
    assert len(compilations) == 1
