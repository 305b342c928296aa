"""Operators that stay float and have no template, on the emulated GPU: as on the CPU."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.attributes import SPEC
from relay_int8.graph.dataflow import shape
from schedules.targets import native_target
from tests.cuda.emulator import kernels, launch_size
from tests.cuda.run_network import EmulatedNetwork, kernel_source, lowered
from tests.cuda.run_template import SM_80
from tests.run_built import run_built
from tests.small_networks import NetworkWriter, images, nn


def network(island: Callable[[NetworkWriter, relax.Var], relax.Var]) -> tvm.IRModule:
    """Return a convolution, a dense layer of eight classes, and an island."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    pool = net.emit("pool", nn.avg_pool2d(a, pool_size=shape(a)[2:]))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 16)))
    logits = net.emit("logits", relax.op.matmul(flat, net.constant(16, 40)))
    return net.module(island(net, logits))


def cut(net: NetworkWriter, x: relax.Var) -> relax.Var:
    """Return the classes as eight rows of five: norms of the last axis have templates."""
    return net.emit("cut", relax.op.reshape(x, (1, 8, 5)))


ISLANDS = {
    "log_softmax": lambda net, x: net.emit("y", nn.log_softmax(x)),
    "layer_norm": lambda net, x: net.emit(
        "y", nn.layer_norm(cut(net, x), net.constant(8), net.constant(8), axes=[1])
    ),
    "mean": lambda net, x: net.emit("y", relax.op.mean(x, axis=1, keepdims=True)),
    "exp": lambda net, x: net.emit("y", relax.op.exp(x)),
    "max": lambda net, x: net.emit("y", relax.op.max(cut(net, x), axis=1)),
}
BOUND = {
    "scatter": lambda net, x: net.emit(
        "y", relax.op.scatter_elements(x, relax.const([[5, 0, 39]], "int64"), net.constant(1, 3), 1)
    ),
    "searchsorted": lambda net, x: net.emit(
        "y", relax.op.bucketize(x, relax.const([-1.0, 0.0, 0.5], "float32"))
    ),
}
"""Whose kernels TVM writes for threads of a GPU itself."""


@pytest.fixture(scope="module", params=ISLANDS)
def mod(request) -> tvm.IRModule:
    return normalize()(network(ISLANDS[request.param]))


@pytest.fixture(scope="module")
def emulated(mod) -> EmulatedNetwork:
    return EmulatedNetwork(mod, SM_80)


def test_equals_the_cpu(mod, emulated):
    inputs = {mod["main"].params[0].name: images(mod)[0]}
    found = emulated.run(inputs)["outputs:0"]
    expected = run_built(compile_module(mod, native_target()), inputs)["outputs:0"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_islands_have_threads(emulated):
    """A kernel without threads would run on the host, which cannot read the GPU's memory."""
    islands = {
        var.name_hint: func
        for var, func in emulated.mod.functions_items()
        if isinstance(func, tirx.PrimFunc) and SPEC not in func.attrs
    }
    assert islands
    for name, func in islands.items():
        assert f"{name}_kernel" in emulated.source
        assert math.prod(launch_size(func)[3:]) >= 32


def test_nvrtc_compiles_them(nvrtc, emulated):
    """Without the headers of a toolkit, where TVM takes infinity from."""
    assert nvrtc.compile(kernel_source(emulated.mod, SM_80), "sm_80").binary


@pytest.mark.parametrize("name", BOUND)
def test_kernels_that_have_threads_keep_them(nvrtc, name):
    source = kernel_source(lowered(normalize()(network(BOUND[name])), SM_80), SM_80)
    assert any(name in kernel for kernel in kernels(source))
    assert nvrtc.compile(source, "sm_80").binary
