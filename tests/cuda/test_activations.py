"""Functions in epilogues on the emulated GPU, tensor cores among them: equal to the reference."""

from typing import Any

import numpy as np
import pytest

from schedules.cuda.conv2d_any_group import CONV2D_ANY_GROUP_CUDA
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA
from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.layout import NCHW32C
from schedules.reference.kernels import reference
from schedules.spec import Conv2d, Dense
from schedules.template import Layouts
from tests.cuda.run_template import SM_80, Built, Case, build
from tests.schedules.numpy_kernels import random_arrays

BYTES = {"x": "uint8", "y": "uint8"}
CONV: dict[str, Any] = {
    "batch": 1, "in_channels": 32, "height": 5, "width": 7, "out_channels": 40, "kernel": (3, 3),
    "padding": (1, 1, 1, 1), **BYTES,
}  # fmt: skip
BLOCKED = Layouts(inputs=(NCHW32C,), output=NCHW32C)
CASES = {
    "dp4a": Case(spec=Conv2d(**CONV, activation="swish"), template=CONV2D_DP4A),
    "groups": Case(
        spec=Conv2d(**(CONV | {"groups": 8}), activation="hard_swish"),
        template=CONV2D_ANY_GROUP_CUDA,
    ),
    "depthwise": Case(
        spec=Conv2d(**(CONV | {"out_channels": 32, "groups": 32}), activation="quick_gelu"),
    ),
    "sum": Case(spec=Conv2d(**CONV, activation="swish", residual="int8"), template=CONV2D_DP4A),
    "of_the_sum": Case(
        spec=Conv2d(**CONV, leaky=True, residual="int8", sum_first=True), template=CONV2D_DP4A
    ),
    "groups_of_the_sum": Case(
        spec=Conv2d(**(CONV | {"groups": 8}), activation="swish", residual="uint8", sum_first=True),
        template=CONV2D_ANY_GROUP_CUDA,
    ),
    "mma_of_the_sum": Case(
        spec=Conv2d(**CONV, leaky=True, residual="uint8", sum_first=True),
        template=CONV2D_MMA,
        wanted=Layouts(inputs=(NCHW32C, NCHW32C), output=NCHW32C),
    ),
    "moved": Case(
        spec=Conv2d(**CONV, activation="swish", shifted=True), template=CONV2D_MMA, wanted=BLOCKED
    ),
    "dense": Case(spec=Dense(rows=3, n=13, k=19, **BYTES, activation="sigmoid")),
    "mma": Case(spec=Conv2d(**CONV, activation="swish"), template=CONV2D_MMA, wanted=BLOCKED),
    "mma_dense": Case(
        spec=Dense(rows=5, n=40, k=64, **BYTES, activation="gelu"), template=DENSE_MMA
    ),
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES, SM_80)


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built: Built, name: str):
    spec = CASES[name].spec
    arrays = random_arrays(spec, np.random.default_rng(1), 1)
    tensors = {tensor: arrays[tensor] for tensor in spec.tensors}
    params = {constant: arrays[constant] for constant in spec.params}
    expected = reference(spec, tensors, params)
    np.testing.assert_array_equal(built.run(name, tensors | params), expected)
    assert len(np.unique(expected)) > 10
