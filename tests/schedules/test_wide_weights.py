"""Weights of int16, bytes less a byte: exact against NumPy on every kind of layer and CPU."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from relay_int8.tuning.problem_constants import constants
from schedules.cpu.contractions.conv2d_any_group import CONV2D_ANY_GROUP
from schedules.cpu.plain import CONV2D_PLAIN, CONV2D_PLAIN_WIDE, DENSE_PLAIN_WIDE
from schedules.cpu.windows.depthwise import DEPTHWISE_PLAIN_WIDE
from schedules.selection import select
from schedules.spec import Conv2d, Dense, from_json, to_json
from schedules.x86.avx2 import CONV2D_AVX2_WIDE, CONV2D_STEM_AVX2_WIDE, DENSE_AVX2_WIDE
from schedules.x86.depthwise_avx2 import DEPTHWISE_AVX2_WIDE
from schedules.x86.vnni import CONV2D_VNNI
from tests.schedules.conv_runs import conv
from tests.schedules.convolution_checks import assert_equal, assert_same_epilogue

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake", "num-cores": 2})
HASWELL = Target({"kind": "llvm", "mcpu": "haswell", "num-cores": 2})
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
ARM = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mattr": ["+v8.2a", "+dotprod"]})
GPU = Target({"kind": "cuda", "arch": "sm_86"})


def wide(spec: Conv2d | Dense, **fields: object) -> Conv2d | Dense:
    return dataclasses.replace(spec, weights="int16", **fields)


CONVS = {
    "1x1": wide(conv(48, (5, 7), kernel=(1, 1), padding=(0, 0, 0, 0), groups=1)),
    "3x3": wide(conv(20, (6, 9), out_channels=35, groups=1), strides=(2, 1)),
    "dilated": wide(conv(32, (8, 8), groups=1, dilation=(2, 3)), y="float32"),
    "residual": wide(conv(16, (4, 6), groups=1, residual="int8")),
    "leaky": wide(conv(16, (4, 6), groups=1, leaky=True)),
    "signed": wide(conv(16, (4, 6), groups=1), x="int8", y="int8"),
}
STEM = wide(conv(3, (9, 11), out_channels=16, groups=1, strides=(2, 2)))
DEPTHWISE = {
    "3x3": wide(conv(20, (7, 9))),
    "5x5": wide(conv(16, (8, 8), kernel=(5, 5), strides=(2, 2), padding=(1, 1, 2, 2))),
    "signed": wide(conv(16, (5, 6)), x="int8", y="int8"),
}
DENSES = {
    "ragged": Dense(rows=5, n=40, k=67, x="uint8", y="uint8", leaky=True, weights="int16"),
    "signed": Dense(rows=3, n=10, k=33, x="int8", y="int8", weights="int16"),
    "rows": Dense(rows=67, n=48, k=64, x="uint8", y="float32", weights="int16"),
    "symbolic": Dense(
        rows=tirx.Var("n", "int64"), n=10, k=33, x="uint8", y="int8", weights="int16"
    ),
}
AVX2 = pytest.param("avx2", marks=pytest.mark.isa("avx2"))
FLAVOURS = {
    "avx2": (CONV2D_AVX2_WIDE, DEPTHWISE_AVX2_WIDE, DENSE_AVX2_WIDE, HASWELL),
    "plain": (CONV2D_PLAIN_WIDE, DEPTHWISE_PLAIN_WIDE, DENSE_PLAIN_WIDE, GENERIC),
}


@pytest.mark.parametrize("flavour", [AVX2, "plain"])
@pytest.mark.parametrize("name", CONVS)
def test_convolutions(flavour, name):
    template, _, _, target = FLAVOURS[flavour]
    assert_equal(template, CONVS[name], target)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("epilogue", [{"requantize": "gemmlowp"}, {"activation": "swish"}])
def test_epilogues_are_those_of_other_kernels(epilogue):
    spec = CONVS["3x3"]
    assert_same_epilogue(CONV2D_AVX2_WIDE, CONV2D_PLAIN_WIDE, spec, HASWELL, epilogue)


@pytest.mark.isa("avx2")
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_few_channels(seed):
    assert_equal(CONV2D_STEM_AVX2_WIDE, STEM, HASWELL, seed)
    assert_equal(CONV2D_AVX2_WIDE, CONVS["3x3"], HASWELL, seed)


@pytest.mark.parametrize("flavour", [AVX2, "plain"])
@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise(flavour, name):
    _, template, _, target = FLAVOURS[flavour]
    assert_equal(template, DEPTHWISE[name], target)


@pytest.mark.parametrize("flavour", [AVX2, "plain"])
@pytest.mark.parametrize("name", DENSES)
def test_dense(flavour, name):
    _, _, template, target = FLAVOURS[flavour]
    assert_equal(template, DENSES[name], target, batch=3)


@pytest.mark.parametrize("groups", [10, 20])
def test_groups(groups):
    spec = wide(conv(20, (4, 5), out_channels=40, groups=groups))
    assert select(spec, VNNI) is CONV2D_ANY_GROUP
    assert_equal(CONV2D_ANY_GROUP, spec, GENERIC)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("target", "names"),
    [
        (VNNI, ["conv2d_avx2_wide", "depthwise_avx2_wide", "dense_avx2_wide"]),
        (GENERIC, ["conv2d_plain_wide", "depthwise_plain_wide", "dense_plain_wide"]),
        (ARM, ["conv2d_plain_wide", "depthwise_plain_wide", "dense_plain_wide"]),
        (GPU, ["conv2d_any_group_cuda", "conv2d_any_group_cuda", "dense_wide_cuda"]),
    ],
)
def test_each_target_has_a_kernel_of_each_layer(target, names):
    specs = CONVS["3x3"], DEPTHWISE["3x3"], DENSES["ragged"]
    assert [select(spec, target).name for spec in specs] == names


@pytest.mark.fast
@pytest.mark.parametrize("template", [CONV2D_VNNI, CONV2D_PLAIN])
def test_kernels_of_bytes_refuse_them(template):
    assert template.refuses(CONVS["1x1"], VNNI) == "its weights are int16, not int8"
    spec = dataclasses.replace(CONVS["1x1"], weights="int8")
    assert CONV2D_AVX2_WIDE.refuses(spec, VNNI) == "its weights are int8, not int16"


@pytest.mark.fast
def test_specs_of_bytes_are_the_text_they_were():
    assert "weights" not in to_json(conv(16, (4, 6)))
    spec = CONVS["1x1"]
    assert '"weights": "int16"' in to_json(spec) and from_json(to_json(spec)) == spec


@pytest.mark.fast
def test_candidates_are_verified_with_the_extremes():
    spec = CONVS["1x1"]
    tensors = {"x": np.zeros(spec.shape("x"), np.uint8)}
    w = constants(spec, tensors, np.random.default_rng(0))["w"]
    assert (w.dtype, w.min(), w.max()) == (np.int16, -255, 255)
