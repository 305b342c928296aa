"""Runs by a list of noted kernel calls: those of the virtual machine, on whatever inputs."""

import numpy as np
import onnx
import pytest
import tvm_ffi
from onnx import helper

import relay_int8
from relay_int8.runtime.noted_calls import noted_calls
from relay_int8.runtime.profiling import random_inputs
from relay_int8.runtime.tvm_runtime import ALIGNMENT
from tests.onnx_models import model
from tests.parallel_network import parallel_artifact

pytestmark = pytest.mark.fast

DIMS = (2, 64)
WEIGHTS = np.random.default_rng(7).normal(size=(64, 8)).astype("float32")


def artifact(folder, nodes, outputs, batch=2):
    """Build a network of inputs a and b."""
    dims = {"a": (batch, 64), "b": (batch, 64)}
    proto = model(nodes, dims, outputs, {"w": WEIGHTS})
    onnx.save(proto, folder / "net.onnx")
    network = relay_int8.load_model(folder / "net.onnx")
    data = [drawn(seed) for seed in range(4)]
    relay_int8.build(relay_int8.quantize(network, data)).save(folder / "net.ri8")
    return relay_int8.load(folder / "net.ri8", threads=1)


def drawn(seed):
    """Return inputs, aligned so that kernels read them where they lie."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for name in ("a", "b"):
        memory = np.empty(4 * 2 * 64 + ALIGNMENT, "uint8")
        start = -memory.ctypes.data % ALIGNMENT
        inputs[name] = memory[start : start + 4 * 2 * 64].view("float32").reshape(DIMS)
        inputs[name][...] = rng.normal(size=DIMS)
    return inputs


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    """Load relu((a + b) @ w), of views of a and b."""
    shape = {"y": (2, 8)}
    nodes = [
        helper.make_node("Flatten", ["a"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    return artifact(tmp_path_factory.mktemp("product"), nodes, shape)


def by_machine(module, inputs):
    """Return what the virtual machine gives."""
    result = module.machine["main"](*module.arguments(inputs))
    return np.from_dlpack(result if isinstance(result, tvm_ffi.Tensor) else result[0]).copy()


def test_every_run_is_the_machines(product):
    for seed in range(5):
        inputs = drawn(seed)
        expected = by_machine(product, inputs)
        np.testing.assert_array_equal(product.run(inputs)["y"], expected)
        unaligned = {name: np.asfortranarray(array) for name, array in inputs.items()}
        np.testing.assert_array_equal(product.run(unaligned)["y"], expected)


def test_one_array_may_be_two_inputs(product):
    inputs = drawn(1)
    twice = product.twin()  # whose first run this is
    both = {"a": inputs["a"], "b": inputs["a"]}
    np.testing.assert_array_equal(twice.run(both)["y"], by_machine(product, both))
    np.testing.assert_array_equal(twice.run(inputs)["y"], by_machine(product, inputs))


def test_earlier_outputs_stay(product):
    first, second = drawn(1), drawn(2)
    kept = product.run(first)["y"], product.enqueue(first)["y"]
    product.run(second)
    product.enqueue(second)
    for output in kept:
        np.testing.assert_array_equal(np.from_dlpack(output), by_machine(product, first))


def test_the_machine_is_asked_once_only(product):
    inputs = drawn(3)
    expected = product.run(inputs)["y"]

    def _stop(*_values):
        raise KeyError("asked")

    product.machine["set_instrument"](tvm_ffi.convert(_stop))
    np.testing.assert_array_equal(product.run(inputs)["y"], expected)
    product.time(inputs)
    with pytest.raises(KeyError, match="asked"):
        by_machine(product, inputs)
    product.machine["set_instrument"](None)


def test_an_output_that_is_an_input_is_a_copy_of_it(tmp_path):
    nodes = [
        helper.make_node("Identity", ["a"], ["same"]),
        helper.make_node("MatMul", ["b", "w"], ["y"]),
    ]
    module = artifact(tmp_path, nodes, {"same": (2, 64), "y": (2, 8)})
    inputs = drawn(0)
    first = module.run(inputs)["same"]
    for seed in (1, 2):
        np.testing.assert_array_equal(module.run(drawn(seed))["same"], drawn(seed)["a"])
    np.testing.assert_array_equal(first, inputs["a"])


def test_an_open_batch_is_left_to_the_machine(tmp_path):
    module = relay_int8.load(parallel_artifact(tmp_path, max_batch=3), threads=1)
    for batch in (2, 1, 3):
        inputs = random_inputs(module.manifest.inputs, batch)
        (output,) = module.run(inputs).values()
        np.testing.assert_array_equal(output, by_machine(module, inputs))


@pytest.mark.parametrize("lacking", ["kernels", "reshape"])
def test_other_functions_are_not_made_again(product, lacking, monkeypatch):
    library = product._library
    if lacking == "kernels":
        library = type("Library", (), {"implements_function": lambda *_, **__: False})()
    else:
        monkeypatch.setattr("relay_int8.runtime.noted_calls.FIXED", frozenset())
    arguments = product.arguments(drawn(0))
    assert noted_calls(library, product.machine, product.device, arguments) is None
