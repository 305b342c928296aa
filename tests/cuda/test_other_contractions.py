"""Dense layers, groups of any structure and float32 on the emulated GPU: equal to NumPy."""

from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from schedules.cuda.conv2d_any_group import CONV2D_ANY_GROUP_CUDA
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.dp4a.conv2d_f32 import CONV2D_F32_CUDA
from schedules.cuda.dp4a.dense import DENSE_DP4A, DENSE_F32_CUDA
from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleTemplate
from tests.cuda.emulator import kernels
from tests.cuda.run_template import SM_61, Built, Case, build
from tests.schedules.numpy_kernels import random_arrays, reference

F32 = {"x": "float32", "y": "float32"}
CONV: dict[str, Any] = {
    "batch": 1, "in_channels": 24, "height": 6, "width": 9, "out_channels": 24, "kernel": (3, 3),
    "padding": (1, 1, 1, 1), "x": "uint8", "y": "uint8",
}  # fmt: skip
CONVS: dict[str, dict[str, Any]] = {
    "depthwise": {"groups": 24, "batch": 2},
    "depthwise_s8_ragged": {
        "groups": 22, "in_channels": 22, "out_channels": 22, "x": "int8", "y": "int8",
        "strides": (2, 2), "kernel": (5, 3), "residual": "int8",
    },
    "depthwise_float": {"groups": 22, "in_channels": 22, "out_channels": 22, **F32},
    "groups_across_blocks": {"groups": 4, "in_channels": 12, "out_channels": 20, "y": "float32"},
    "wide_weights": {"out_channels": 21, "weights": "int16", "residual": "uint8"},
    "wide_weights_depthwise": {"groups": 24, "weights": "int16", "x": "int8"},
    "float": {"dilation": (2, 1), "out_channels": 21, "residual": "float32", **F32},
    "float_ragged": {"in_channels": 5, "out_channels": 7, "leaky": True, **F32},
}  # fmt: skip
DENSE: dict[str, Any] = {"rows": 1, "n": 40, "k": 64, "x": "uint8", "y": "uint8"}
DENSES: dict[str, dict[str, Any]] = {
    "one_row": {},
    "rows": {"rows": 11, "n": 24, "x": "int8", "y": "int8", "leaky": True},
    "ragged": {"rows": 3, "n": 13, "k": 19, "y": "float32"},
    "ragged_s8": {"rows": 2, "n": 7, "k": 6, "x": "int8", "y": "int8"},
    "wide_rows": {"rows": 5, "k": 19, "weights": "int16", "leaky": True},
    "long": {"n": 1000, "k": 1024, "y": "float32"},
    "float_rows": {"rows": 5, "n": 10, **F32},
    "float_odd": {"rows": 2, "n": 12, "k": 19, **F32},
}
WITHOUT_DP4A = ("depthwise", "depthwise_s8_ragged", "groups_across_blocks")
CASES = {
    **{
        name: Case(
            spec=Conv2d(**(CONV | fields)),
            template=CONV2D_ANY_GROUP_CUDA if name in WITHOUT_DP4A else None,
        )
        for name, fields in CONVS.items()
    },
    **{name: Case(spec=Dense(**(DENSE | fields))) for name, fields in DENSES.items()},
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES, SM_61)


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(built, name):
    spec = CASES[name].spec
    arrays = random_arrays(spec, np.random.default_rng(1))
    actual, expected = built.run(name, arrays), reference(spec, arrays)
    if spec.x == "float32":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=5e-5)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("seed", [1, 2])
def test_sampled(seed):
    names = ("depthwise", "groups_across_blocks", "rows", "float")
    sampled = build({name: CASES[name] for name in names}, target=SM_61, seed=seed)
    for name in names:
        test_equals_numpy(sampled, name)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("depthwise_float", CONV2D_ANY_GROUP_CUDA),
        ("float", CONV2D_F32_CUDA),
        ("one_row", DENSE_DP4A),
        ("float_rows", DENSE_F32_CUDA),
    ],
)
def test_choice(name: str, template: ScheduleTemplate):
    assert CASES[name].choice(SM_61) is template


@pytest.mark.fast
@pytest.mark.parametrize("groups", [3, 8, 24])
def test_every_group_takes_dp4a_where_there_is_one(groups: int):
    spec = Conv2d(**(CONV | {"groups": groups}))
    assert Case(spec=spec).choice(SM_61) is CONV2D_DP4A
    old = Target({"kind": "cuda", "arch": "sm_60"}, host="llvm")
    assert Case(spec=spec).choice(old) is CONV2D_ANY_GROUP_CUDA


def test_integer_layers_use_dp4a(built):
    bodies = {name: kernel.body for name, kernel in kernels(built.source).items()}
    for name in ("one_row", "rows", "ragged", "ragged_s8", "long"):
        assert "__dp4a(" in bodies[f"{name}_kernel"]
