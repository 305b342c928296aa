"""Sampling at moved places on the emulated GPU: equal to the reference; a whole network too."""

import dataclasses

import numpy as np
import pytest

from schedules.layout import NCHW4C, NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.spec import Gelu, Sigmoid
from schedules.template import Layouts
from tests.cuda.emulator import kernels
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61, Built, Case, build
from tests.deformable_networks import modulated
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.schedules.test_functions import values
from tests.schedules.test_sample2d import KINDS, params_of, tensors_of

LAYOUTS = {"row": ROW, "words": NCHW4C, "blocks": NCHW16C}
CASES = {
    f"{kind}_{name}": Case(
        spec=spec,
        wanted=Layouts(inputs=(layout, ROW, NCHW4C)[: len(spec.tensors)], output=layout),
    )
    for kind, spec in KINDS.items()
    for name, layout in LAYOUTS.items()
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built, name):
    spec = CASES[name].spec
    tensors, params = tensors_of(spec), params_of(spec)
    expected = reference(spec, tensors, params)
    np.testing.assert_array_equal(built.run(name, {**tensors, **params}), expected)


def test_sampled():
    wide = dataclasses.replace(CASES["plain_words"].spec, channels=96)
    cases = {"wide": dataclasses.replace(CASES["plain_words"], spec=wide)}
    tensors, params = tensors_of(wide), params_of(wide)
    expected = reference(wide, tensors, params)
    for seed in (1, 2):
        found = build(cases, seed=seed).run("wide", {**tensors, **params})
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("function", [Sigmoid, Gelu])
def test_functions_of_floats_have_the_same_bits(function):
    spec = function(dims=(2, 6, 9, 7))
    case = Case(spec=spec, wanted=Layouts(inputs=(ROW,), output=NCHW4C))
    x = np.clip(values(*spec.dims), -1e15, 1e15)
    found = build({"mask": case}).run("mask", {"x": x})
    np.testing.assert_array_equal(found, reference(spec, {"x": x}, {}))


def test_each_place_is_found_once(built):
    """The corners of a place serve all channels of a thread; their sums are one fma each."""
    body = kernels(built.source)["plain_words_kernel"].body
    assert "__fmaf_rn(" in body
    assert "*(uint*)(" in body


def test_network_equals_oracle():
    network = QuantizedNetwork.make(modulated())
    emulated = EmulatedNetwork(network.mod, SM_61)
    assert_found_equals_oracle(network, emulated.run(network.inputs))
