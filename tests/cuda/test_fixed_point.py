"""Fixed-point kernels on the emulated GPU, tensor cores among them: equal to the reference."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.numerics.multipliers import fixed_constants
from schedules.cuda.conv2d_any_group import CONV2D_ANY_GROUP_CUDA
from schedules.cuda.dp4a.conv2d_dp4a import CONV2D_DP4A
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA
from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.layout import NCHW32C
from schedules.reference.kernels import reference
from schedules.rounding import ROUNDINGS
from schedules.spec import Binary, Bound, Conv2d, Dense, Pool2d, Requantizing, Rescale
from schedules.template import Layouts
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, SM_80, Built, Case, build
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.schedules.any_layout_runs import f32, i32, random_tensors
from tests.schedules.numpy_kernels import random_arrays
from tests.small_networks import NETWORKS, any_params

BYTES = {"x": "uint8", "y": "uint8"}
CONV: dict[str, Any] = {
    "batch": 1, "in_channels": 32, "height": 5, "width": 7, "out_channels": 40, "kernel": (3, 3),
    "padding": (1, 1, 1, 1), **BYTES,
}  # fmt: skip
BLOCKED = Layouts(inputs=(NCHW32C, NCHW32C), output=NCHW32C)
IMAGE = (2, 20, 5, 7)
LINEAR = {
    "dp4a": Case(
        spec=Conv2d(**CONV, requantize="gemmlowp", residual="uint8", leaky=True),
        template=CONV2D_DP4A,
    ),
    "groups": Case(
        spec=Conv2d(**(CONV | {"groups": 8}), requantize="tpu-mlir"),
        template=CONV2D_ANY_GROUP_CUDA,
    ),
    "dense": Case(spec=Dense(rows=3, n=13, k=19, **BYTES, leaky=True, requantize="tflite")),
    "mma": Case(
        spec=Conv2d(**CONV, requantize="gemmlowp", residual="uint8", leaky=True),
        template=CONV2D_MMA,
        wanted=BLOCKED,
    ),
    "mma_dense": Case(
        spec=Dense(rows=5, n=40, k=64, **BYTES, leaky=True, requantize="tpu-mlir"),
        template=DENSE_MMA,
    ),
}
SUM = {"m_a": f32(0.37), "m_b": f32(0.61), "z": i32(120, -7, 9), "clamp": f32(-9, 246)}
SLOPES = {"m": f32(0.8), "m_neg": f32(*np.linspace(-0.3, 0.9, 20)), "z": i32(120, 4)}
MEANS = {"m": np.linspace(0.05, 0.3, 12).reshape(3, 4).astype("float32"), "z": i32(117, -3)}
ELEMENTWISE: dict[str, tuple[Requantizing, dict[str, np.ndarray]]] = {
    **{
        f"add_{rounding.replace('-', '_')}": (
            Binary(
                operator="add", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="uint8",
                requantize=rounding,
            ),
            SUM,
        )
        for rounding in ROUNDINGS
    },
    **{
        operator: (
            Binary(
                operator=operator, a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="uint8",
                requantize="gemmlowp",
            ),
            SUM,
        )
        for operator in ("max", "min")
    },
    "difference": (
        Binary(
            operator="add", a_shape=IMAGE, b_shape=IMAGE, a="uint8", b="int8", y="uint8",
            requantize="gemmlowp",
        ),
        SUM | {"m_b": f32(-0.61)},
    ),
    "bound": (
        Bound(
            operator="max", dims=IMAGE, bound_shape=(1, 20, 1, 1), x="uint8", y="int8",
            requantize="tflite",
        ),
        {"m": f32(0.8), "z": i32(120, 4), "clamp": f32(-100, 120)}
        | {"bound": np.arange(-90, 110, 10, np.int8)},
    ),
    "leaky": (
        Rescale(dims=IMAGE, x="uint8", y="int8", leaky=True, requantize="gemmlowp"),
        SLOPES | {"clamp": f32(-100, 120)},
    ),
    "average": (
        Pool2d(
            reduce="avg", batch=2, channels=20, height=5, width=7, out_size=(3, 4), kernel=(3, 3),
            strides=(2, 2), padding=(1, 1), x="uint8", y="int8", requantize="tflite",
        ),
        MEANS | {"clamp": f32(-100, 120)},
    ),
}  # fmt: skip
CASES = LINEAR | {name: Case(spec=spec) for name, (spec, _) in ELEMENTWISE.items()}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES, SM_80)


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built: Built, name: str):
    spec = CASES[name].spec
    if name in LINEAR:
        plain = dataclasses.replace(spec, requantize="float")
        arrays = random_arrays(plain, np.random.default_rng(1), 1)
    else:
        arrays = random_tensors(spec) | ELEMENTWISE[name][1]
    tensors = {tensor: arrays[tensor] for tensor in spec.tensors}
    params = fixed_constants(spec, arrays)
    expected = reference(spec, tensors, params)
    np.testing.assert_array_equal(built.run(name, tensors | params), expected)
    assert len(np.unique(expected)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("target", [SM_61, SM_80], ids=["sm_61", "sm_80"])
def test_network_equals_oracle(target: Target, full: bool):
    if target is SM_61 and not full:
        pytest.skip("needs --full")
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params, requantize="gemmlowp")
    emulated = EmulatedNetwork(network.mod, target)
    assert_found_equals_oracle(network, emulated.run(network.inputs))
