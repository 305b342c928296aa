"""The NumPy network against compiled kernels, and its simulation against the integer oracle."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.numerics.qparams import activation, quantize
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation, fake_quantize
from tests.compiled import UNOPTIMIZED
from tests.reference import run
from tests.small_networks import NETWORKS, NetworkWriter, any_params, images

F = np.float32


@pytest.mark.parametrize("name", NETWORKS)
def test_float_values_are_those_of_the_kernels(name):
    mod = NETWORKS[name]()
    x = images(mod)[0]
    main = virtual_machine(compile_module(mod, UNOPTIMIZED))["main"]
    found = NumpyNetwork(mod).run({"x": x})
    (output,) = found
    wanted = main(tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found[output], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.fast
@pytest.mark.parametrize("name", NETWORKS)
def test_a_simulation_is_the_integer_network(name):
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig())
    params = any_params(plan)
    quantized = tvm.transform.Sequential([InsertQdq(plan, params)])(mod)
    for x in images(mod, 3):
        wanted = run(quantized, {"x": x})
        found = NumpyNetwork(mod, plan.additions).run(
            {"x": x}, Simulation(plan=plan, params=params)
        )
        for output in found:
            # A sum that rounds the other way moves an integer by a step, now and then; the functions
            # of kernels are up to 8e-4 off.
            assert snr_db(wanted[output], found[output]) > (38 if name == "sums" else 40)


@pytest.mark.fast
def test_what_exceeds_float32_on_the_way_is_no_warning():
    net = NetworkWriter((1, 4))
    mod = net.module(net.emit("y", relax.op.sigmoid(net.x)))
    found = NumpyNetwork(mod).run({"x": np.array([[-1000, 0, 1, 1000]], F)})["y"]
    np.testing.assert_allclose(found, [[0, 0.5, 0.7310586, 1]], rtol=1e-6)


@pytest.mark.fast
def test_images_are_stacked():
    mod = NETWORKS["residual"]()
    network = NumpyNetwork(mod)
    data = [{"x": x} for x in images(mod, 5)]
    together = [network.run(chunk)["logits"] for chunk in network.images(data, 2)]
    assert [len(rows) for rows in together] == [2, 2, 1]
    alone = np.concatenate([network.run(image)["logits"] for image in data])
    np.testing.assert_allclose(np.concatenate(together), alone, rtol=1e-4, atol=1e-5)


@pytest.mark.fast
def test_a_known_prefix_is_not_computed_again():
    mod = NETWORKS["residual"]()
    plan = annotate(mod, QuantConfig(exclude=("a", "b0", "b", "c", "d/add")))
    network = NumpyNetwork(mod, plan.additions)
    inputs = {"x": images(mod)[0]}
    known = network.run(inputs, keep=lambda name: True)
    known["d"] = known["d"] + 1  # what is known is believed
    simulation = Simulation(plan=plan, params=any_params(plan))
    plain = network.run(inputs, simulation)["logits"]
    assert not np.array_equal(network.run(inputs, simulation, known=known)["logits"], plain)


@pytest.mark.fast
@pytest.mark.parametrize("scheme", ["u8", "s8", "asymmetric"])
def test_fake_quantize(scheme):
    params = activation(scheme, 0.0 if scheme == "u8" else -1.7, 2.9)
    x = np.random.default_rng(0).normal(scale=2, size=1000).astype(F)
    steps = quantize(x, params).astype(np.int32) - params.zero_point
    np.testing.assert_array_equal(fake_quantize(x, params), steps.astype(F) * params.scale)


def test_an_operator_that_numpy_lacks_is_compiled():
    net = NetworkWriter((1, 3, 6, 6))
    a = net.conv("a", net.x, 4, 1)
    up = net.emit("up", relax.op.image.resize2d(a, (9, 9), method="cubic"))
    mod = net.module(net.conv("b", up, 2, 1))
    x = np.concatenate(images(mod, 2))
    network = NumpyNetwork(mod)
    found = network.run({"x": x})["b"]
    main = virtual_machine(compile_module(mod, UNOPTIMIZED))["main"]
    wanted = [main(tvm.runtime.tensor(image[None])).numpy() for image in x]
    np.testing.assert_allclose(found, np.concatenate(wanted), rtol=1e-4, atol=1e-5)
    assert dataflow.operator(network.layers["up"].root) == "image.resize2d"
