"""Parts of an input that are read apart are cut in float, so that each has its own range."""

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8.api.model import Model
from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.parts import REASON
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
UNITS = 16


def stacked(*, turned=False, joined=False, read_whole=False, step=1):
    """Return layers of an output below 1 and of a memory with tens, stacked in one input."""
    net = NetworkWriter((UNITS, 2) if turned else (2, UNITS))
    x = net.emit("turned", relax.op.permute_dims(net.x)) if turned else net.x
    parts = [
        net.emit(f"part{i}", relax.op.strided_slice(x, [0, 1], [i, 0], [i + 1, UNITS], [1, step]))
        for i in range(2)
    ]
    if joined:
        parts = [net.emit("joined", relax.op.concat(parts, axis=1))]
    layers = [
        net.emit(f"y{i}", relax.op.matmul(part, net.constant(part.ty.shape[1].value, 8)))
        for i, part in enumerate(parts)
    ]
    if read_whole:
        layers.append(net.emit("whole", relax.op.matmul(x, net.constant(UNITS, 8))))
    return net.module(*layers)


def kept(mod):
    plan = annotate(normalized(mod)[0], QuantConfig())
    return {layer.name for layer in plan.layers if layer.reason == REASON}


def test_parts_have_their_own_ranges():
    rng = np.random.default_rng(0)
    data = [
        {"x": (rng.normal(size=(2, UNITS)) * [[0.01], [10]]).astype("float32")} for _ in range(4)
    ]
    mod = stacked()
    (name,) = (str(param.name) for param in mod["main"].params)
    model = Model(module=mod)
    network = relay_int8.quantize(model, [{name: x["x"]} for x in data]).network
    assert kept(mod) == {"part0", "part1"}
    entries = network.table.entries
    assert entries["part0"].qparams().scale < entries["part1"].qparams().scale / 100
    assert all(layer.integer for layer in network.plan.layers if layer.macs)


def test_a_transpose_before_them_is_in_float_too():
    assert kept(stacked(turned=True)) == {"turned", "part0", "part1"}


@pytest.mark.parametrize("fields", [{"joined": True}, {"read_whole": True}, {"step": 2}], ids=str)
def test_parts_of_one_tensor_keep_its_range(fields):
    assert kept(stacked(**fields)) == set()
