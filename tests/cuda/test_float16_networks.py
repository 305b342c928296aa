"""A network that is float in part, its products of float16: beside the same in float32."""

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_int8
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.lower.halve_floats import HalveFloats
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.demo import MODEL
from relay_int8.errors import ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import TEMPLATE
from relay_int8.graph.dataflow import shape
from relay_int8.graph.spec_calls import spec_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.spec import Conv2d
from schedules.targets import native_target
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.nvidia import require_compiler
from tests.small_networks import NetworkWriter, any_params, images, nn

EXCLUDED = ("b", "dw", "logits")


def partly_float() -> tvm.IRModule:
    """Integers, a float convolution and a depthwise one, integers, a float dense layer."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.relu("b", net.conv("b/bias", a, 16, 3, padding=1))
    c = net.relu("c", net.conv("c/bias", net.conv("dw", b, 16, 3, groups=16), 16, 1))
    pool = net.emit("pool", nn.avg_pool2d(c, pool_size=shape(c)[2:]))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 16)))
    product = net.emit("logits/matmul", relax.op.matmul(flat, net.constant(16, 8)))
    return net.module(net.emit("logits", relax.op.add(product, net.constant(8))))


@pytest.fixture(scope="module")
def mod() -> tvm.IRModule:
    plan = annotate(partly_float(), QuantConfig(exclude=EXCLUDED))
    return InsertQdq(plan, any_params(plan))(partly_float())


@pytest.fixture(scope="module")
def networks(mod) -> dict[bool, EmulatedNetwork]:
    return {half: EmulatedNetwork(mod, SM_61, float16=half) for half in (False, True)}


def templates(network: EmulatedNetwork) -> dict[str, str]:
    """Return the template of each tensor's kernel."""
    kernels = {
        var.name: network.mod[value.args[0]].attrs
        for var, value in dataflow.calls(network.mod["main"])
        if dataflow.operator(value) == "call_tir"
    }
    return {name: str(attrs[TEMPLATE]) for name, attrs in kernels.items() if TEMPLATE in attrs}


def test_float_layers_alone_change(networks):
    before, after = templates(networks[False]), templates(networks[True])
    changed = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
    assert sorted(changed.values()) == [
        ("conv2d_f32_cuda", "conv2d_f16_cuda"),
        ("dense_f32_cuda", "dense_f16_cuda"),
    ]
    assert "b" in changed
    assert before["dw"] == after["dw"] == "conv2d_any_group_cuda"


def test_within_the_rounding_of_float16(mod, networks):
    inputs = {mod["main"].params[0].name: images(mod)[0]}
    whole, half = (networks[key].run(inputs) for key in (False, True))
    np.testing.assert_array_equal(whole["a"], half["a"])
    difference = np.abs(whole["b"] - half["b"]).max() / np.abs(whole["b"]).max()
    assert 1e-6 < difference < 2e-3
    # An integer between them may lie one step beside.
    np.testing.assert_allclose(half["outputs:0"], whole["outputs:0"], rtol=0.02, atol=0.05)


def test_weights_take_half_the_bytes(networks):
    def weight_bytes(network: EmulatedNetwork) -> int:
        return sum(
            constant.nbytes
            for _, value in dataflow.calls(network.mod["main"])
            for argument in dataflow.arguments(value)
            if (constant := dataflow.constant(argument)) is not None
            and constant.ndim == 6
            and constant.dtype != np.int8
        )

    assert 2 * weight_bytes(networks[True]) == weight_bytes(networks[False]) > 0


def test_ptx_converts(networks):
    require_compiler()
    nvrtc = Nvrtc()
    ptx = {
        half: nvrtc.compile(network.source, "sm_61", "ptx").binary.decode()
        for half, network in networks.items()
    }
    for instruction in ("cvt.f32.f16", "cvt.rn.f16.f32"):
        assert instruction in ptx[True] and instruction not in ptx[False]


@pytest.mark.fast
@pytest.mark.parametrize(("weight", "halves"), [(65519.0, 1), (65520.0, 0), (-1e9, 0), (np.nan, 0)])
def test_weights_beyond_float16_stay(weight, halves):
    net = NetworkWriter()
    w = np.ones((8, 3, 1, 1), "float32")
    w[3, 1] = weight
    lowered = LowerFloat()(net.module(net.emit("y", nn.conv2d(net.x, relax.const(w)))))
    halved = [spec_of(value) for _, value in dataflow.calls(HalveFloats(SM_61)(lowered)["main"])]
    assert sum(spec.half for spec in halved if isinstance(spec, Conv2d)) == halves


@pytest.mark.fast
def test_cpus_are_refused(mod, tmp_path):
    with pytest.raises(ConfigError, match="only GPUs have such kernels; leave float16 out"):
        compile_module(mod, native_target(), float16=True)
    with pytest.raises(ConfigError, match="the target is llvm"):
        relay_int8.compile_model(
            MODEL, None, tmp_path / "a.ri8", options=relay_int8.BuildOptions(float16=True)
        )
