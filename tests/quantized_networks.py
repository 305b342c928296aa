"""Quantized networks with what the oracle computes of them, and the comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.lower.realize import realized_integers
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import shape
from relay_int8.graph.plan import Plan
from relay_int8.graph.requantize import with_requantize
from relay_int8.numerics.qparams import QParams, activation
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from schedules.rounding import Requantize
from tests import reference
from tests.oracle import operators
from tests.oracle.graph import Node, read_graph
from tests.run_built import run_built
from tests.small_networks import any_params

Inputs = dict[str, np.ndarray]


@dataclass(frozen=True)
class QuantizedNetwork:
    """A QDQ module, its plan, an image, and every tensor that the oracle computes from it."""

    mod: tvm.IRModule
    plan: Plan
    inputs: Inputs
    expected: dict[str, np.ndarray]

    @classmethod
    def make(
        cls,
        mod: tvm.IRModule,
        params: Callable[[Plan], Mapping[str, QParams]] | None = None,
        *,
        preset: str = "int8",
        requantize: Requantize = "float",
        inputs: Inputs | None = None,
    ) -> QuantizedNetwork:
        """Quantize a normalized network.

        It is run on a random image, unless ``inputs`` are given. Ranges are by default those of
        what it is run on, cut a little.
        """
        config = QuantConfig(preset=preset, requantize=requantize)
        plan, inputs = annotate(mod, config), image(mod) if inputs is None else inputs
        found = params(plan) if params else ranges(plan, float_tensors(mod, inputs))
        qdq = with_requantize(InsertQdq(plan, found)(mod), requantize)
        return cls(qdq, plan, inputs, reference.run(qdq, inputs))


def image(mod: tvm.IRModule, seed: int = 1) -> Inputs:
    """Return a random image, or sequence, whose neighbouring pixels are alike."""
    (x,) = mod["main"].params
    n, c, *sizes = shape(x)
    pixels = np.random.default_rng(seed).normal(size=(n, c, *(-(-size // 4) for size in sizes)))
    for axis, size in enumerate(sizes, start=2):
        pixels = pixels.repeat(4, axis).take(range(size), axis)
    return {x.name: pixels.astype("float32")}


def ranges(plan: Plan, tensors: Inputs) -> dict[str, QParams]:
    """Return parameters under which the largest tenth of a tensor's longer side saturates."""
    params = {}
    for name in plan.calibrated:
        scheme = plan.tensors[name].scheme
        low, high = min(float(tensors[name].min()), 0.0), float(tensors[name].max())
        low, high = (low, 0.9 * high) if high > -low else (0.9 * low, high)
        params[name] = activation("s8" if scheme == "input" else scheme, low, high)
    return params


def float_tensors(mod: tvm.IRModule, inputs: Inputs) -> Inputs:
    """Return every tensor of a float network, computed by NumPy."""
    graph = read_graph(mod["main"], {name: array.shape for name, array in inputs.items()})
    values: dict[Node, Any] = {node: inputs[node.name] for node in graph.inputs}

    def value(arg: Any) -> Any:
        if not isinstance(arg, Node):
            return arg
        if arg.op == "tuple":
            return [value(item) for item in arg.args]
        return values[arg] if arg.value is None else arg.value

    for node in graph.calls:
        values[node] = operators.apply(node.op, [value(arg) for arg in node.args], node.attrs)
    return {node.name: array for node, array in values.items()}


def assert_equals_oracle(network: QuantizedNetwork, target: Target, fewest: int = 5) -> None:
    """Compile and run a network, and compare what it computes, ``fewest`` integer tensors at least."""
    found = run_built(compile_module(network.mod, target), network.inputs)
    assert_found_equals_oracle(network, found, fewest)


def integers_of(network: QuantizedNetwork) -> Inputs:
    """Return the oracle's integers under the names of the kernels that give them."""
    kernels = realized_integers(network.mod)
    return {kernels[name]: network.expected[name] for name in kernels}


def assert_found_equals_oracle(network: QuantizedNetwork, found: Inputs, fewest: int = 5) -> None:
    """Compare every integer tensor and every output with ``==``, what float layers give nearly."""
    compared = 0
    for name, wanted in integers_of(network).items():
        actual = found.get(name)
        if actual is None:
            continue
        if wanted.dtype == np.int8 and actual.dtype == np.uint8:
            wanted = (wanted.astype(np.int16) + 128).astype(np.uint8)
        rows = wanted.reshape(actual.shape) if actual.ndim == 2 else wanted  # of a dense layer
        np.testing.assert_array_equal(actual, rows, err_msg=name)
        compared += 1
    assert compared >= fewest
    floats = {layer.name for layer in network.plan.layers if not layer.integer}
    for place, name in enumerate(reference.output_names(network.mod, network.inputs)):
        actual, wanted = found[f"outputs:{place}"], network.expected[name]
        if name in floats:
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6, err_msg=name)
        else:
            np.testing.assert_array_equal(actual, wanted, err_msg=name)


def oracle_snr_db(network: QuantizedModel, images: Iterable[Inputs]) -> float:
    """Return the ratio of output "y" of the float network to its error in integers, by the oracle."""
    wanted, found = (
        np.concatenate([reference.run(mod, each)["y"] for each in images])
        for mod in (network.reference, network.mod)
    )
    ratio = snr_db(wanted, found)
    assert ratio is not None
    return ratio


def assert_simulated(mod: tvm.IRModule) -> None:
    """Compare output "y" with that of NumPy's simulation of the integers, nearly."""
    network = QuantizedNetwork.make(mod, any_params)
    simulation = Simulation(plan=network.plan, params=any_params(network.plan))
    simulated = NumpyNetwork(mod, network.plan.additions).run(network.inputs, simulation)
    np.testing.assert_allclose(simulated["y"], network.expected["y"], atol=0.05)


def adopted_again(network: QuantizedNetwork, names: Iterable[str]) -> QuantizedModel:
    """Write a network as QDQ ONNX and read it; the integers of ``names`` stay the same."""
    again = adopt(import_onnx(export_qdq(network.mod)))
    found = reference.run(again.mod, network.inputs)
    for name in names:
        np.testing.assert_array_equal(found[f"{name}:q"], network.expected[f"{name}:q"])
    return again
