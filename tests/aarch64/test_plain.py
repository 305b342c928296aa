"""The plain kernels, cross-built for aarch64, give the oracle's integers under qemu."""

import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.graph.dataflow import shape
from schedules.rounding import Requantize
from schedules.targets import TARGETS
from tests.aarch64.networks import assert_equals_oracle
from tests.small_networks import NETWORKS, NetworkWriter

nn = relax.op.nn
PLAIN = Target(TARGETS["aarch64"])


def every_kind() -> tvm.IRModule:
    """One layer of each kind; the result of each is also an output."""
    net = NetworkWriter((1, 3, 9, 10))
    conv = net.relu("conv", net.conv("conv/bias", net.x, 20, 3, strides=2, padding=1))
    depthwise = net.conv("depthwise", conv, 20, 3, padding=1, groups=20)
    added = net.emit("added", relax.op.add(net.conv("shortcut", conv, 20, 1), depthwise))
    grouped = net.conv("grouped", added, 12, 3, padding=1, groups=2)
    joined = net.emit("joined", relax.op.concat([added, grouped], axis=1))
    pooled = net.emit("pooled", nn.max_pool2d(joined, pool_size=3, strides=2, padding=1))
    curve = net.emit("curve", relax.op.sigmoid(pooled))
    mean = net.emit("mean", nn.avg_pool2d(curve, pool_size=shape(curve)[2:]))
    flat = net.emit("flat", relax.op.reshape(mean, (1, 32)))
    dense = net.emit("dense/matmul", relax.op.matmul(flat, net.constant(32, 7)))
    dense = net.emit("dense", relax.op.add(dense, net.constant(7)))
    return net.module(conv, depthwise, added, grouped, joined, pooled, curve, mean, dense)


@pytest.mark.parametrize("requantize", ["float", "gemmlowp"])
def test_every_kind_of_layer(emulator, requantize: Requantize):
    assert_equals_oracle(every_kind(), emulator, PLAIN, requantize=requantize)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["int8", "int8-asymmetric"])
@pytest.mark.parametrize("name", NETWORKS)
def test_small_network(emulator, full, name, preset):
    if not full:
        pytest.skip("needs --full: qemu is slow, and x86 compares the same kernels by default")
    assert_equals_oracle(NETWORKS[name](), emulator, PLAIN, preset=preset)
