"""What networks of today add to convolutions: aarch64's integers under qemu are the oracle's."""

from collections.abc import Callable

import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import shape
from schedules.rounding import Requantize
from schedules.targets import TARGETS
from tests.aarch64.networks import assert_equals_oracle
from tests.attention_networks import linear, packed, windows
from tests.deformable_networks import deformable
from tests.recurrent_networks import BOTH, recurrent_model
from tests.small_networks import NetworkWriter, bounds, quotients
from tests.transformer_networks import perceptrons

nn = relax.op.nn
PLAIN = Target(TARGETS["aarch64"])
CPUS = {
    "plain": PLAIN,
    "sdot": Target({**TARGETS["aarch64"], "mattr": ["+v8.2a", "+dotprod"]}),
    "usdot": Target({**TARGETS["aarch64"], "mattr": ["+v8.2a", "+dotprod", "+i8mm"]}),
}


def deformed() -> tvm.IRModule:
    """Samples with and without masks, with the rims of ONNX and of MXNet."""
    net = NetworkWriter((1, 3, 6, 7))
    a = net.relu("a", net.conv("a/bias", net.x, 8, 3, padding=1))
    b = deformable(net, "b", a, 6, masked=True)
    c = deformable(net, "c", b, 4, masked=False, rim="edge", stride=2)
    return net.module(a, b, c)


def enlarged() -> tvm.IRModule:
    """Phases of transposed convolutions, a shuffle of channels, bilinear resizes, tables, a gate."""
    net = NetworkWriter((1, 3, 4, 5))
    a = net.conv("a", net.x, 8, 3, padding=1)
    swish = net.emit("swish", nn.silu(a))
    b = net.relu("b", net.deconv("b/bias", swish, 8, 4, strides=2, padding=1))
    c = net.deconv("c", b, 8, 3, groups=8, strides=2)
    cut = net.emit("cut", relax.op.reshape(b, (1, 2, 4, *shape(b)[2:])))
    turned = net.emit("turned", relax.op.permute_dims(cut, (0, 2, 1, 3, 4)))
    shuffled = net.conv("shuffled", net.emit("mixed", relax.op.reshape(turned, shape(b))), 8, 1)
    wide = net.resized("wide", shuffled, (9, 7), "half_pixel")
    small = net.resized("small", c, (9, 7), "align_corners")
    joined = net.emit("joined", relax.op.concat([wide, small], axis=1))
    dilated = net.conv("dilated", joined, 8, 3, padding=2, dilation=2)
    mean = net.emit("mean", nn.avg_pool2d(dilated, pool_size=shape(dilated)[2:]))
    gate = net.emit("gate", relax.op.sigmoid(net.conv("gate/bias", mean, 8, 1)))
    gated = net.emit("gated", relax.op.multiply(gate, dilated))
    last = net.conv("last", gated, 4, 1)
    return normalize()(net.module(swish, b, c, shuffled, wide, small, dilated, gate, gated, last))


def styled() -> tvm.IRModule:
    """An InstanceNorm of whole blocks of channels between convolutions."""
    net = NetworkWriter((1, 3, 6, 7))
    a = net.conv("a", net.x, 32, 3, padding=1)
    gamma, beta = net.constant(32), net.constant(32)
    b = nn.instance_norm(a, gamma, beta, channel_axis=1, axes=[2, 3])
    c = net.conv("c", net.relu("relu", net.emit("b", b)), 8, 3, padding=1)
    return net.module(c)


OF_INSTRUCTIONS = [
    "enlarged",
    "packed attention",
    "windows",
    "linear attention",
    "recurrent",
    "gated",
]
"""Networks that have all templates with instructions for dot products; the others differ elsewhere."""
NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {
    "deformed": deformed,
    "enlarged": enlarged,
    "divided": quotients,
    "greater": lambda: bounds(relax.op.maximum),
    "normalized": lambda: normalize()(perceptrons()),
    "lesser": lambda: bounds(relax.op.minimum),
    "packed attention": lambda: normalize()(packed()),
    "windows": lambda: normalize()(windows()),
    "linear attention": lambda: normalize()(linear()),
    "recurrent": lambda: normalize()(import_onnx(recurrent_model("LSTM", dense=7, direction=BOTH))),
    "styled": lambda: normalize()(styled()),
    "gated": lambda: normalize()(import_onnx(recurrent_model("GRU", dense=7))),
}


@pytest.mark.parametrize(
    ("name", "cpu"),
    [(name, cpu) for name in NETWORKS for cpu in CPUS if cpu == "plain" or name in OF_INSTRUCTIONS],
)
def test_equals_oracle(emulator, name: str, cpu: str):
    templates = assert_equals_oracle(NETWORKS[name](), emulator, CPUS[cpu])
    assert any(template.endswith(f"_{cpu}") for template in templates)


@pytest.mark.parametrize("rounding", ["gemmlowp", "tpu-mlir"])
def test_fixed_point_equals_oracle(emulator, rounding: Requantize):
    assert_equals_oracle(enlarged(), emulator, PLAIN, requantize=rounding)
