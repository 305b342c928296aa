"""AlterLayout: one layout for a region, a repack only where an operator cuts blocks."""

import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.kernel_calls import KernelCall, kernel_calls_of
from relay_int8.compiler.passes.lower.alter_layout import AlterLayout
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.pipeline import lower
from relay_int8.graph import dataflow
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.targets import TARGETS
from tests.small_networks import NETWORKS, NetworkWriter, any_params, nn

pytestmark = pytest.mark.fast

VNNI = Target(TARGETS["x86-vnni"])


def lowered_calls(mod: tvm.IRModule) -> dict[str, KernelCall]:
    plan = annotate(mod, QuantConfig())
    lowered = lower(VNNI)(InsertQdq(plan, any_params(plan))(mod))
    return {call.name: call for call in kernel_calls_of(lowered)}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_repack_inside_a_region(name: str):
    calls = lowered_calls(NETWORKS[name]())
    results = {f"{var.name}:row" for var in dataflow.results(NETWORKS[name]()["main"])}
    assert {call.name for call in calls.values() if call.is_repack} <= results


def test_the_stem_reads_what_quantize_writes():
    calls = lowered_calls(NETWORKS["residual"]())
    assert calls["x:int"].layouts == ("row", "NHWC")
    assert calls["a"].template == "conv2d_stem_vnni"
    assert calls["a"].layouts == ("NHWC", "NCHW16c")


def test_an_image_with_two_kinds_of_readers_is_repacked_once():
    net = NetworkWriter((1, 3, 12, 12))
    stem = net.conv("stem", net.x, 16, 3, padding=1)
    dilated = [net.conv(f"d{i}", net.x, 16, 3, padding=2, dilation=2) for i in range(2)]
    total = net.emit("total", relax.op.concat([stem, *dilated], axis=1))
    calls = lowered_calls(net.module(net.conv("end", total, 4, 1)))
    repacks = [call.name for call in calls.values() if call.is_repack]
    assert repacks == ["x:int:NCHW16c"]


def test_reshape_of_a_pooled_vector_moves_no_byte():
    net = NetworkWriter((1, 3, 9, 9))
    c = net.relu("c", net.conv("c/bias", net.x, 32, 3))
    pool = net.emit("pool", nn.avg_pool2d(c, pool_size=(7, 7)))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 32)))
    calls = lowered_calls(net.module(net.emit("y", relax.op.matmul(flat, net.constant(32, 8)))))
    assert list(calls) == ["x:int", "c", "pool", "y"]


@pytest.mark.parametrize(("channels", "repacks"), [(32, 0), (24, 1)])
def test_frames_become_channels_by_whole_blocks_of_these(channels: int, repacks: int):
    net = NetworkWriter((1, 16, 9, 9))
    c = net.relu("c", net.conv("c/bias", net.x, 2 * channels, 3))
    frames = net.emit("frames", relax.op.reshape(c, (2, channels, 7, 7)))
    y = net.conv("y", frames, 16, 1)
    calls = lowered_calls(net.module(y))
    moves = [name for name in calls if name not in ("x:int", "x:int:NCHW16c", "c", "y", "y:row")]
    assert len(moves) == repacks


@pytest.mark.parametrize(("channels", "repacks"), [(32, 0), (24, 2)])
def test_norms_of_channels_take_whole_blocks_of_them(channels: int, repacks: int):
    net = NetworkWriter((1, 3, 12, 12))
    c = net.conv("c", net.x, channels, 3, padding=1)
    gamma, beta = net.constant(channels), net.constant(channels)
    norm = net.emit("norm", nn.instance_norm(c, gamma, beta, channel_axis=1, axes=[2, 3]))
    calls = lowered_calls(net.module(net.conv("y", norm, 16, 3)))
    inside = [call for call in calls.values() if call.is_repack and call.tensor != "y"]
    assert len(inside) == repacks


def test_a_shuffle_at_the_end_writes_rows():
    net = NetworkWriter((1, 3, 8, 8))
    c = net.conv("c", net.x, 4, 1)
    phases = net.emit("phases", relax.op.reshape(c, (1, 1, 2, 2, 8, 8)))
    turned = net.emit("turned", relax.op.permute_dims(phases, (0, 1, 4, 2, 5, 3)))
    calls = lowered_calls(net.module(net.emit("y", relax.op.reshape(turned, (1, 1, 16, 16)))))
    assert list(calls) == ["x:int", "c", "y"]
    assert calls["y"].layouts[-1] == "row"


@pytest.mark.parametrize(
    ("size", "layouts"),
    [
        (8, {"x:int": ("row", "row"), "x:int:NCHW16c": ("row", "NCHW16c")}),
        (7, {"x:int": ("row", "NCHW16c")}),  # fewer pixels than a tile of bytes has
    ],
)
def test_quantize_leaves_layouts_to_moves_by_tiles(size: int, layouts: dict):
    net = NetworkWriter((1, 32, size, size))
    calls = lowered_calls(net.module(net.conv("y", net.x, 16, 1)))
    quantized = {name: call.layouts for name, call in calls.items() if name.startswith("x:int")}
    assert quantized == layouts


def test_equal_layers_share_one_kernel():
    net = NetworkWriter((1, 16, 8, 8))
    y = net.x
    for i in range(3):
        y = net.relu(f"y{i}", net.conv(f"c{i}", y, 16, 3, padding=1))
    calls = lowered_calls(net.module(net.conv("end", y, 4, 1)))
    assert calls["y1"].function == calls["y2"].function


@pytest.mark.parametrize("name", ["residual", "depthwise"])
def test_input_is_left_alone(name: str):
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig())
    kernels = LowerFloat()(Realize()(InsertQdq(plan, any_params(plan))(mod)))
    original = kernels.clone()
    AlterLayout(VNNI)(kernels)
    tvm.ir.assert_structural_equal(kernels, original)
