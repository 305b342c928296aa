"""SplitGroups: groups that fill blocks of channels and those that are left are two convolutions."""

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.target import Target

from relay_int8.compiler.passes.lower.split_groups import SplitGroups
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.origins import Origin, Origins
from relay_int8.graph.spec_calls import kernel_call, spec_of
from schedules.spec import Concat, Conv2d
from schedules.targets import TARGETS
from tests.kernel_interpreter import interpret
from tests.schedules.conv_runs import conv, random_params, random_values

pytestmark = pytest.mark.fast

VNNI = Target(TARGETS["x86-vnni"])
FIVE = conv(60, (3, 4), out_channels=40, groups=5, strides=(1, 2))  # four fill blocks
EPILOGUES = {
    "plain": {},
    "residual": {"residual": "uint8"},
    "leaky": {"leaky": True},
    "float y": {"y": "float32"},
    "fixed point": {"requantize": "tflite"},
}


def network(spec: Conv2d) -> tvm.IRModule:
    writer = FunctionWriter()
    tensors = [
        relax.Var(name, relax.TensorType(spec.shape(name), spec.dtype(name)))
        for name in spec.tensors
    ]
    params = random_params(np.random.default_rng(1), dataclasses.replace(spec, requantize="float"))
    if spec.rounding:
        m = np.round(params["m"] * 2.0**39).astype(np.int32)
        bounds = params["clamp"].astype(np.int32)
        params |= {"m": m, "shift": np.full(spec.out_channels, 39, np.int32), "clamp": bounds}
    return writer.finish(tensors, [writer.emit("y", kernel_call(spec, tensors, params))])


def specs(mod: tvm.IRModule) -> list:
    return [spec_of(value) for _, value in dataflow.calls(mod["main"])]


@pytest.mark.parametrize("fields", EPILOGUES.values(), ids=EPILOGUES)
def test_the_integers_are_the_same(fields):
    spec = dataclasses.replace(FIVE, **fields)
    mod = network(spec)
    original = mod.clone()
    after = SplitGroups(VNNI)(mod)
    tvm.ir.assert_structural_equal(mod, original)
    found = [item for item in specs(after) if isinstance(item, Conv2d)]
    assert [(item.groups, item.in_channels, item.out_channels) for item in found] == [
        (4, 48, 32),
        (1, 12, 8),
    ]
    rng = np.random.default_rng(2)
    inputs = {name: random_values(rng, spec.shape(name), spec.dtype(name)) for name in spec.tensors}
    expected, result = interpret(mod, inputs)["y"], interpret(after, inputs)["y"]
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(result, expected)


def test_parts_are_of_the_layer():
    after = SplitGroups(VNNI)(network(FIVE))["main"]
    origins = Origins(after)
    found = {str(var.name): origins.of(str(var.name)) for var, _ in dataflow.calls(after)}
    names = ("y/even/x", "y/even", "y/rest/x", "y/rest")
    assert found == {name: Origin("y", "part") for name in names} | {"y": Origin("y")}


def test_an_open_batch_stays_open():
    after = specs(
        SplitGroups(VNNI)(network(dataclasses.replace(FIVE, batch=tirx.Var("n", "int64"))))
    )
    assert isinstance(after[-1], Concat)
    assert not any(spec.is_static for spec in after)


@pytest.mark.parametrize(
    "spec",
    [
        conv(48, (3, 4), groups=4),
        dataclasses.replace(FIVE, x="float32", y="float32"),
        conv(36, (3, 4), groups=3),  # four would fill blocks
        conv(40, (3, 4), groups=5),  # of eight, which have a kernel of their own
        conv(34, (3, 4), groups=17),  # of two channels
        conv(8, (3, 4), groups=1),
    ],
    ids=["even", "floats", "few", "eights", "narrow", "one"],
)
def test_others_stay(expect_rewrite, spec):
    mod = network(spec)
    expect_rewrite(SplitGroups(VNNI), mod, mod)
