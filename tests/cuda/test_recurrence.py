"""Recurrent layers on the emulated GPU: equal to the reference, bit for bit."""

import dataclasses

import numpy as np
import pytest

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from schedules.layout import ROW
from schedules.reference.kernels import reference
from schedules.template import Layouts
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, Built, Case, build
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.recurrent_networks import BOTH, SIZE, STEPS, recurrent_model
from tests.schedules.recurrence_cases import CASES as SPECS
from tests.schedules.recurrence_cases import arrays_of

FLOATS = {
    f"{name}_floats": dataclasses.replace(SPECS[name], quantized=False, y="float32")
    for name in ("lstm_ragged", "gru", "gru_state", "lstm_given")
}
CASES = {
    name: Case(spec=spec, wanted=Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW))
    for name, spec in {**SPECS, **FLOATS}.items()
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built, name):
    spec = CASES[name].spec
    arrays = arrays_of(spec)
    expected, found = reference(spec, arrays, arrays), built.run(name, arrays)
    if spec.quantized:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_threads_in_another_order(built):
    built.emulator.begin_backwards()
    for name in ("lstm_ragged", "gru_state", "wide"):
        arrays = arrays_of(CASES[name].spec)
        expected = reference(CASES[name].spec, arrays, arrays)
        np.testing.assert_array_equal(built.run(name, arrays), expected)


@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_whole_network(operator):
    proto = recurrent_model(operator, dense=7, direction=BOTH)
    x = np.random.default_rng(1).normal(size=(STEPS, 1, SIZE)).astype(np.float32)
    network = QuantizedNetwork.make(normalize()(import_onnx(proto)), inputs={"x": x})
    emulated = EmulatedNetwork(network.mod, SM_61)
    assert "recurrence_cuda" in emulated.source
    assert_found_equals_oracle(network, emulated.run(network.inputs), fewest=2)
