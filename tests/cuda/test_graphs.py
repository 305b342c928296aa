"""A CUDA graph replays every kernel but those that touch what the caller owns."""

import pytest
from tvm import relax

from benchmarks import zoo
from relay_int8.compiler.build import finalized
from relay_int8.compiler.gpu_code import launches
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import arguments, calls, operator, results, shape
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.cuda.run_network import lowered
from tests.cuda.run_template import SM_80
from tests.small_networks import NETWORKS, NetworkWriter, any_params, nn


def replayed(mod) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what a graph replays and what is launched, checked to be all there is, in order."""
    low = lowered(mod, SM_80)
    expected = [
        value.args[0].name_hint for _, value in calls(low["main"]) if operator(value) == "call_tir"
    ]
    captured, launched = launches(finalized(low, True))
    assert sorted(captured + launched) == sorted(expected)
    assert [name for name in expected if name in captured] == list(captured)
    without, one_by_one = launches(finalized(low, False))
    assert not without and list(one_by_one) == expected
    return captured, launched


def with_a_float_island():
    """Two integer regions, between them a softmax over the channels, which stays in float."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    island = net.emit("island", nn.softmax(a, axis=1))
    b = net.relu("b", net.conv("b/bias", island, 16, 3, padding=1))
    return net.module(net.emit("pool", nn.avg_pool2d(b, pool_size=shape(b)[2:])))


def quantized(mod):
    """Return a normalized network in QDQ form; the ranges do not matter here."""
    plan = annotate(mod, QuantConfig())
    return InsertQdq(plan, any_params(plan))(mod)


@pytest.mark.fast
@pytest.mark.parametrize("name", NETWORKS)
def test_all_but_what_touches_inputs_and_outputs(name):
    mod = quantized(NETWORKS[name]())
    main = lowered(mod, SM_80)["main"]
    owned = {*main.params, *results(main)}
    touching = [
        value.args[0].name_hint
        for var, value in calls(main)
        if operator(value) == "call_tir" and owned & {var, *arguments(value)}
    ]
    _, launched = replayed(mod)
    assert list(launched) == touching


def test_a_float_island_is_part_of_the_graph():
    captured, launched = replayed(quantized(with_a_float_island()))
    assert [name for name in captured if "softmax" in name]
    assert sum(name.startswith("conv2d_") for name in captured) == 2
    assert len(launched) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NETWORKS)
def test_networks_of_the_zoo_are_one_launch(name, full):
    if not full and name != "resnet18":
        pytest.skip("needs --full")
    size = 75 if name == "inception_v3" else 32
    mod = import_onnx(zoo.build(name, image_size=size, depth="cut"))
    captured, launched = replayed(quantized(normalize()(mod)))
    assert len(captured) > 8
    assert len(launched) == 2  # quantize reads the image; the last layer writes the scores


def test_captured_functions_are_called_through_the_runtimes_cache():
    low = lowered(quantized(with_a_float_island()), SM_80)
    final = finalized(low, True)
    text = final["main"].script()
    assert "vm.builtin.cuda_graph.run_or_capture" in text
    assert "vm.builtin.cuda_graph.get_cached_alloc" in text
    assert isinstance(final["main_cuda_graph_capture"], relax.Function)
