"""Preset auto on every kind of network there is: of the zoo, those of other tests, random ones."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pytest
import tvm

from benchmarks import zoo
from benchmarks.subject import Subject
from relay_int8.calibration import open_data
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import dtype, shape
from relay_int8.graph.interface import open_inputs
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from tests import (
    attention_networks,
    deformable_networks,
    modern_networks,
    sequence_networks,
    small_networks,
    transformer_networks,
)
from tests.random_networks import random_network
from tests.zoo_transformers import DISTINCT, small_size

pytestmark = pytest.mark.slow
IMAGE_SIZE = {"unet": 32}
SMALL = 33
CONVOLUTIONAL = ("mobilenet_v3_large", "densenet121", "unet")
"""Of the zoo, beside transformers: small networks have the kinds of layers that the others have."""
Inputs = list[dict[str, np.ndarray]]
Case = Callable[[], tuple[tvm.IRModule, Inputs]]


def drawn(mod: tvm.IRModule) -> Inputs:
    """Return two inputs: normally distributed floats, integers of 0 and 1."""
    rng = np.random.default_rng(3)
    return [
        {
            str(param.name): (
                rng.standard_normal(shape(param))
                if dtype(param).startswith("float")
                else rng.integers(0, 2, shape(param))
            ).astype(dtype(param))
            for param in mod["main"].params
        }
        for _ in range(2)
    ]


def written(make: Callable[[], tvm.IRModule]) -> tuple[tvm.IRModule, Inputs]:
    """Return a network of the other tests."""
    mod = normalize()(make())
    return mod, drawn(mod)


def of_onnx(make: Callable[[], object]) -> tuple[tvm.IRModule, Inputs]:
    """Return a network of the other tests that is an ONNX model."""
    return written(lambda: import_onnx(make()))


def convolutional(name: str) -> tuple[tvm.IRModule, Inputs]:
    """Return a convolutional network of the zoo, cut."""
    size = IMAGE_SIZE.get(name, SMALL)
    return of_onnx(lambda: zoo.build(name, image_size=size, depth="cut", batch=1))


def transformer(name: str) -> tuple[tvm.IRModule, Inputs]:
    """Return a transformer of the zoo, cut, with tokens that exist."""
    size = small_size(name)
    mod = import_onnx(zoo.build(name, image_size=size, depth="cut", classes=10))
    subject = Subject(network=name, image_size=size, depth="cut", calibration_images=2)
    return normalize()(mod), subject.calibration()


WRITTEN = (small_networks, attention_networks, transformer_networks, deformable_networks)
NETWORKS: Mapping[str, Case] = {
    **{f"random {seed}": partial(written, partial(random_network, seed)) for seed in range(12)},
    **{name: partial(written, make) for each in WRITTEN for name, make in each.NETWORKS.items()},
    **{
        name: partial(of_onnx, make)
        for each in (modern_networks, sequence_networks)
        for name, make in each.NETWORKS.items()
    },
    **{name: partial(convolutional, name) for name in CONVOLUTIONAL},
    **{name: partial(transformer, name) for name in DISTINCT},
}
BY_DEFAULT = ("random 0", "random 1", "residual", "packed")


@pytest.fixture(scope="module", autouse=True)
def sharing():
    with sharing_kernels():
        yield


@pytest.mark.parametrize("name", NETWORKS)
def test_auto_answers_every_question(name: str, full: bool):
    if name not in BY_DEFAULT and not full:
        pytest.skip("needs --full: seconds of search a network")
    mod, inputs = NETWORKS[name]()
    found = quantize(mod, open_data(inputs, open_inputs(mod)), QuantConfig(preset="auto"))
    assert found.config.preset != "auto"
    assert found.choices
    assert all(choice.untried == () for choice in found.choices)
