"""Products of two activations and attention on the emulated GPU: equal to the reference."""

import numpy as np
import pytest

from relay_int8.compiler.pipeline import normalize
from schedules.reference.kernels import reference
from tests.attention_networks import NETWORKS
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, Built, Case, build
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.schedules.product_cases import arrays_of, product_of
from tests.schedules.test_products import ATTENTIONS, PRODUCTS

SPECS = {
    **{f"product_{name}": spec for name, spec in PRODUCTS.items()},
    **{f"attention_{name}": spec for name, spec in ATTENTIONS.items()},
    "product_floats": product_of(3, 5, 7, a="float32", b="float32", y="float32"),
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build({name: Case(spec=spec) for name, spec in SPECS.items()})


@pytest.mark.parametrize("name", SPECS)
def test_equals_reference(built, name):
    spec = SPECS[name]
    for seed in (1, 2):
        arrays = arrays_of(spec, seed)
        expected, found = reference(spec, arrays, arrays), built.run(name, arrays)
        if name == "product_floats":
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(found, expected)


def test_whole_words_are_multiplied_at_once(built):
    bodies = built.source.split("__global__")
    words = {name: any(f"{name}_kernel" in b and "__dp4a" in b for b in bodies) for name in SPECS}
    assert words["product_scores"] and not words["product_ragged"]


@pytest.mark.parametrize("name", ["packed", "crossed", "linear"])
def test_networks_equal_oracle(name):
    network = QuantizedNetwork.make(normalize()(NETWORKS[name]()))
    emulated = EmulatedNetwork(network.mod, SM_61, optimize=True)
    assert_found_equals_oracle(network, emulated.run(network.inputs))
