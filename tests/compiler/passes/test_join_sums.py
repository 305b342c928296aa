"""JoinSums: a sum of many 1x1 convolutions is one of their inputs joined."""

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_int8
from relay_int8.api.model import Model
from relay_int8.compiler.passes.normalize.join_sums import JoinSums
from relay_int8.compiler.pipeline import normalize_passes
from relay_int8.graph.dataflow import calls, operator
from relay_int8.graph.plan import Plan
from tests.onnx_models import assert_close, run_relax
from tests.quantized_networks import oracle_snr_db
from tests.small_networks import NetworkWriter, nn

C, SKIP = 8, 12
X = np.random.default_rng(0).normal(size=(1, C, 1, 40)).astype("float32")


def skips(
    count: int, *, kernel: int = 1, read_too: bool = False, loud: bool = False, bias: bool = True
) -> tvm.IRModule:
    """Return gated layers with residual sums, and the sum of a convolution of each."""
    net = NetworkWriter(X.shape)
    x, total = net.x, None
    for i in range(count):
        z = net.emit(f"gate{i}", relax.op.tanh(net.conv(f"layer{i}", x, C, 1)))
        if bias:
            skip = net.conv(f"skip{i}", z, SKIP, (1, kernel), padding=(0, kernel // 2))
        else:
            skip = net.emit(f"skip{i}", nn.conv2d(z, net.constant(SKIP, C, 1, 1, scale=0.3)))
        if loud and i == count - 1:
            w = net.constant(SKIP, C, 1, 1, scale=60)
            skip = net.emit("loud", nn.conv2d(z, w))
        total = skip if total is None else net.emit(f"sum{i}", relax.op.add(total, skip))
        x = net.emit(f"x{i}", relax.op.add(x, net.conv(f"residual{i}", z, C, 1)))
        if read_too and i == 1:
            x = net.emit("fed", relax.op.add(x, net.conv("back", total, C, 1)))
    return net.module(net.conv("y", net.relu("relu", total), 4, 1))


def operators(mod: tvm.IRModule) -> list[str]:
    """Return the operators of the joined network, which computes the same."""
    joined = JoinSums()(mod)
    assert_close(run_relax(joined, X), run_relax(mod, X))
    tvm.ir.assert_structural_equal(JoinSums()(joined), joined)
    return [operator(value) for _, value in calls(joined["main"])]


@pytest.mark.fast
@pytest.mark.parametrize("bias", [True, False])
def test_the_skips_of_gated_layers_are_one_convolution(bias):
    mod = skips(5, bias=bias)
    assert operators(mod).count("nn.conv2d") == 5 + 5 + 1 - 1 + 1  # the last residual is not read
    assert operators(mod).count("concat") == 1


@pytest.mark.fast
@pytest.mark.parametrize(
    "mod",
    [
        skips(2),  # no sum on the way
        skips(3),  # as many bytes of inputs as of sums
        skips(5, kernel=3),
        skips(4, loud=True),  # one scale for all weights of a channel would be coarse
    ],
    ids=["two", "three", "windows", "one far larger"],
)
def test_what_would_round_more_is_left(mod):
    assert "concat" not in operators(mod)


@pytest.mark.fast
def test_a_sum_that_something_else_reads_is_a_tensor():
    assert "concat" not in operators(skips(5, read_too=True))


def test_it_is_nearer_to_the_float_network(monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(1)
    data = [{"x": rng.normal(size=X.shape).astype("float32")} for _ in range(12)]

    def decibels() -> tuple[float, Plan]:
        made = relay_int8.quantize(Model(module=skips(8)), data[:8]).network
        return oracle_snr_db(made, data[8:]), made.plan

    after, plan = decibels()
    assert all(layer.integer for layer in plan.layers if layer.macs)
    without = [each for each in normalize_passes() if each.info.name != "JoinSums"]
    monkeypatch.setattr("relay_int8.compiler.pipeline.normalize_passes", lambda: without)
    assert after > decibels()[0] + 0.9
