"""Attention and products of two activations: one kernel each, the oracle's integers everywhere."""

import numpy as np
import pytest
import tvm

from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.compiler.pipeline import normalize
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.group import Group
from relay_int8.graph.groups import find_groups
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.rounding import ROUNDINGS
from schedules.targets import named_target
from tests import reference
from tests.attention_networks import (
    CHANNELS,
    HEADS,
    NETWORKS,
    TOKENS,
    AttentionWriter,
    biased,
    channels_first,
    linear,
)
from tests.onnx_models import assert_close, run_relax
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.x86_targets import FASTEST, X86

R = tvm.relax.op


def groups_of(mod: tvm.IRModule) -> dict[str, list[Group]]:
    found: dict[str, list[Group]] = {}
    for group in find_groups(normalize()(mod)["main"]):
        found.setdefault(group.kind, []).append(group)
    return found


@pytest.mark.parametrize("target", X86)
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_oracle(name: str, target: str):
    network = QuantizedNetwork.make(normalize()(NETWORKS[name]()))
    assert [layer.name for layer in network.plan.layers if layer.macs and not layer.integer] == []
    assert_equals_oracle(network, named_target(target))
    assert all(reason is None for group, reason in realized_groups(network.mod) if group.attention)


@pytest.mark.fast
@pytest.mark.parametrize("name", NETWORKS)
def test_nothing_is_left_between_the_dense_layers(name: str):
    found = groups_of(NETWORKS[name]())
    products = found.get("attention", []) or found["product"]
    assert len(products) == (2 if name == "linear" else 1)
    left = {kind: len(each) for kind, each in found.items()} | {"reshape": 0, "slice": 0}
    assert left.get("transpose", 0) == 1  # tokens out of an image
    assert "nn.softmax" not in found and "mul" not in found


@pytest.mark.fast
def test_parts_of_one_tensor_are_read_where_they_lie():
    (group,) = groups_of(NETWORKS["packed"]())["attention"]
    assert [var.name for var in group.inputs] == ["qkv"] * 3
    assert group.output.name == "y"
    found, depth = group.attention, CHANNELS // HEADS
    assert found is not None
    row = 3 * CHANNELS
    assert found.q.strides == (0, 0, depth, row, 1)
    assert found.k.strides == (CHANNELS, 0, depth, row, 1)
    assert found.v.strides == (2 * CHANNELS, 0, depth, row, 1)
    assert found.factor == pytest.approx(0.36)


@pytest.mark.fast
def test_masks_that_repeat_are_kept_once():
    (group,) = groups_of(NETWORKS["causal"]())["attention"]
    assert group.attention is not None and group.attention.mask is not None
    mask = group.attention.mask
    assert mask.values is not None and mask.values.shape == (1, 1, TOKENS, TOKENS)
    assert mask.strides == (0, 0, 0, TOKENS, 1)


@pytest.mark.parametrize("constant_first", [False, True])
def test_a_constant_mask_beside_a_computed_one(constant_first: bool):
    """Both count: alone, a group that adds one mask does not take them."""
    mod = biased(constant_first=constant_first)
    assert "attention" not in {group.kind for group in find_groups(mod["main"])}
    canonical = normalize()(mod)
    (group,) = (group for group in find_groups(canonical["main"]) if group.attention)
    assert group.attention is not None and group.attention.mask is not None
    assert str(group.attention.mask.tensor.name) == "s/second/mask"
    tvm.ir.assert_structural_equal(normalize()(canonical), canonical)
    network = QuantizedNetwork.make(canonical)
    assert [layer.name for layer in network.plan.layers if layer.macs and not layer.integer] == []
    assert_equals_oracle(network, named_target(FASTEST))
    whole = run_relax(mod, *network.inputs.values())
    assert_close(run_relax(canonical, *network.inputs.values()), whole)


@pytest.mark.parametrize("target", X86)
def test_values_of_channels_by_turned_shares(target: str):
    mod = channels_first()
    canonical = normalize()(mod)
    assert [g.kind for g in find_groups(canonical["main"]) if g.attention] == ["attention"]
    network = QuantizedNetwork.make(canonical)
    assert [layer.name for layer in network.plan.layers if layer.macs and not layer.integer] == []
    assert_equals_oracle(network, named_target(target))
    whole = run_relax(mod, *network.inputs.values())
    assert_close(run_relax(canonical, *network.inputs.values()), whole)


@pytest.mark.fast
@pytest.mark.parametrize("part", ["scores", "shares"])
def test_what_something_else_reads_is_computed(part: str):
    net = AttentionWriter()
    x = net.tokens("x0")
    q, v = (net.heads(f"{name}/h", net.dense(name, x, CHANNELS)) for name in "qv")
    k = net.heads("k/h", net.dense("k", x, CHANNELS), (0, 2, 3, 1))
    scores = net.emit("scores", R.matmul(q, k))
    shares = net.emit("shares", R.nn.softmax(scores))
    y = net.joined("y", net.emit("y/heads", R.matmul(shares, v)))
    found = groups_of(net.module(y, {"scores": scores, "shares": shares}[part]))
    assert "attention" not in found
    assert len(found["product"]) == 2 and len(found["nn.softmax"]) == 1


@pytest.mark.fast
def test_large_products_are_not_counted_out():
    """The places of 2^31 scores would take 16 GB."""
    writer = FunctionWriter()
    a, b = (
        tvm.relax.Var(name, tvm.relax.TensorType(shape, "float32"))
        for name, shape in (("a", (1, 8, 16384, 64)), ("b", (1, 8, 64, 16384)))
    )
    y = writer.emit("y", R.matmul(a, b))
    (group,) = find_groups(writer.finish([a, b], [y])["main"])
    assert group.product is not None
    assert group.product.b.strides == (0, 0, 64 * 16384, 1, 16384)
    assert group.product.y.strides == (0, 0, 16384 * 16384, 16384, 1)


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_products_without_floats(rounding):
    network = QuantizedNetwork.make(normalize()(linear()), requantize=rounding)
    assert_equals_oracle(network, named_target(FASTEST))


@pytest.mark.fast
def test_attention_in_fixed_point_says_why_it_is_float():
    plan = annotate(normalize()(NETWORKS["packed"]()), QuantConfig(requantize="gemmlowp"))
    (layer,) = (layer for layer in plan.layers if layer.kind == "attention")
    assert layer.reason is not None and "fixed-point" in layer.reason


@pytest.mark.fast
@pytest.mark.parametrize("name", NETWORKS)
def test_export_is_read_back(name: str):
    network = QuantizedNetwork.make(normalize()(NETWORKS[name]()))
    again = normalize()(import_onnx(export_qdq(network.mod)))
    found = reference.run(again, network.inputs)
    for name in reference.output_names(network.mod, network.inputs):
        np.testing.assert_array_equal(found[name], network.expected[name])
