"""conv2d_any_group: exact against NumPy for groups that no other template takes."""

import dataclasses

import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.contractions.conv2d_any_group import CONV2D_ANY_GROUP, CONV2D_ANY_GROUP_F32
from tests.schedules.conv_runs import assert_equal, conv

TARGET = Target({"kind": "llvm", "mcpu": "haswell"})
SHAPES = {
    "multiplier": conv(6, (5, 4), out_channels=18, groups=6),
    "straddling": conv(36, (3, 4), groups=3, strides=(1, 2)),
    "narrowing": conv(40, (3, 3), out_channels=10, groups=5, padding=(2, 0, 0, 1)),
    "dense": conv(5, (4, 4), out_channels=7, groups=1, dilation=(2, 1)),
    "depthwise": conv(3, (4, 5), batch=2),
}
EPILOGUES = {
    "residual": {"residual": "uint8"},
    "leaky": {"leaky": True},
    "signed": {"x": "int8", "y": "int8"},
    "float": {"y": "float32"},
}


@pytest.mark.parametrize("spec", SHAPES.values(), ids=SHAPES)
def test_shapes(spec):
    assert_equal(CONV2D_ANY_GROUP, spec, TARGET)


@pytest.mark.fast
@pytest.mark.parametrize("fields", EPILOGUES.values(), ids=EPILOGUES)
def test_epilogues(fields):
    assert_equal(CONV2D_ANY_GROUP, dataclasses.replace(SHAPES["multiplier"], **fields), TARGET)


@pytest.mark.parametrize("fields", [{}, {"leaky": True}, {"residual": "float32"}])
@pytest.mark.parametrize("shape", ["multiplier", "narrowing"])
def test_float32(shape, fields):
    spec = dataclasses.replace(SHAPES[shape], x="float32", y="float32", **fields)
    assert_equal(CONV2D_ANY_GROUP_F32, spec, TARGET)


def test_space_is_the_default():
    assert_equal(CONV2D_ANY_GROUP, SHAPES["multiplier"], TARGET, CONV2D_ANY_GROUP.space)


def test_symbolic_batch():
    spec = dataclasses.replace(SHAPES["multiplier"], batch=tirx.Var("batch", "int64"))
    assert_equal(CONV2D_ANY_GROUP, spec, TARGET, batch=2)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "fields", "target", "reason"),
    [
        (CONV2D_ANY_GROUP, {}, Target("c"), "target is c, not llvm"),
        (
            CONV2D_ANY_GROUP,
            {"x": "float32", "y": "float32"},
            TARGET,
            "x is float32, not uint8 or int8",
        ),
        (CONV2D_ANY_GROUP_F32, {}, TARGET, "x is uint8, not float32"),
        (CONV2D_ANY_GROUP, {}, TARGET, None),
    ],
)
def test_refuses(template, fields, target, reason):
    assert template.refuses(dataclasses.replace(SHAPES["dense"], **fields), target) == reason
