"""Realize: the integers of kernel calls are those of the oracle on the QDQ graph."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import tvm

from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.realize import Realize, realized_integers
from relay_int8.compiler.passes.lower.shift_signs import ShiftSigns
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.graph.requantize import with_requantize
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics import qparams
from relay_int8.operators.linear import Linear
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import PRESETS, QuantConfig
from schedules.rounding import REQUANTIZE, ROUNDINGS, Requantize
from schedules.spec import Requantizing, Rescale
from tests import reference
from tests.kernel_interpreter import interpret
from tests.small_networks import NETWORKS, any_params, images

pytestmark = pytest.mark.fast


def quantized(name: str, preset: str = "int8") -> tvm.IRModule:
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig(preset=preset))
    return InsertQdq(plan, any_params(plan))(mod)


def assert_equals_oracle(qdq: tvm.IRModule, shift: int = 0) -> None:
    """Compare every integer tensor, and the outputs, with ``==``."""
    inputs = {"x": images(qdq)[0]}
    expected = reference.run(qdq, inputs)
    realized = LowerFloat()(Realize()(qdq))
    found = interpret(ShiftSigns()(realized) if shift else realized, inputs)
    integers = realized_integers(qdq)
    assert len(integers) >= 5
    for name in {*integers, *reference.output_names(qdq, inputs)}:
        actual, wanted = found[integers.get(name, name)], expected[name]
        if wanted.dtype == np.int8 and shift:
            wanted = (wanted.astype(np.int16) + shift).astype(np.uint8)
        np.testing.assert_array_equal(actual, wanted, err_msg=name)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", NETWORKS)
def test_equals_oracle(name: str, preset: str):
    assert_equals_oracle(quantized(name, preset))


@pytest.mark.parametrize("name", NETWORKS)
def test_shifted_signs_equal_oracle(name: str):
    assert_equals_oracle(quantized(name, "int8-symmetric"), shift=128)


def fixed(name: str, requantize: Requantize, preset: str = "int8-asymmetric") -> tvm.IRModule:
    """Return a network whose scales are powers of two: sums fall halfway between integers."""
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig(preset=preset, requantize=requantize))
    params = {
        tensor: replace(found, scale=np.float32(2.0 ** np.rint(np.log2(found.scale))))
        for tensor, found in any_params(plan).items()
    }
    return with_requantize(InsertQdq(plan, params)(mod), requantize)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_fixed_point_equals_oracle(name: str, rounding):
    assert_equals_oracle(fixed(name, rounding))


@pytest.mark.parametrize("name", NETWORKS)
def test_fixed_point_shifted_signs_equal_oracle(name: str):
    assert_equals_oracle(fixed(name, "gemmlowp", "int8-symmetric"), shift=128)


@pytest.mark.parametrize("name", NETWORKS)
def test_fixed_point_leaves_no_float_between_quantize_and_dequantize(name: str):
    qdq = fixed(name, "tflite", "int8-symmetric")
    specs = [spec_of(value) for _, value in dataflow.calls(ShiftSigns()(Realize()(qdq))["main"])]
    scaled = [spec for spec in specs if isinstance(spec, Requantizing) and spec.params]
    assert len(scaled) > 3
    for spec in scaled:
        assert (spec.rounding is None) == (spec.dtype("y") == "float32")


def test_fixed_point_differs_by_its_rounding():
    networks = {requantize: fixed("branches", requantize) for requantize in REQUANTIZE}
    found = [reference.run(mod, {"x": images(mod)[0]}) for mod in networks.values()]
    for one, other in itertools.combinations(found, 2):
        assert any((one[name] != other[name]).any() for name in one)


def test_what_several_concats_read_is_rescaled_once():
    realized = Realize()(quantized("dense blocks"))
    kernels = [spec_of(value) for _, value in dataflow.calls(realized["main"])]
    rescales = [spec for spec in kernels if isinstance(spec, Rescale)]
    assert [spec.dims[1] for spec in rescales] == [16, 16]  # "pool" and "c", for all their concats


def test_leaves_input_alone():
    qdq = quantized("residual")
    original = qdq.clone()
    Realize()(qdq)
    tvm.ir.assert_structural_equal(qdq, original)


@pytest.mark.parametrize(
    ("culprit", "wrong"),
    [
        ("multiplier", lambda f: lambda *a: f(*a) * (1 + 2.0**-23)),
        ("rescale_multiplier", lambda f: lambda *a: f(*a) * np.float32(1.01)),
        ("quantize_bias", lambda f: lambda *a: f(*a) + 1),
        ("quantize_weight", lambda f: lambda *a: np.where(f(*a) == 1, 0, f(*a)).astype(np.int8)),
    ],
)
def test_planted_error_is_caught(monkeypatch: pytest.MonkeyPatch, culprit: str, wrong):
    qdq = quantized("residual", "int8-asymmetric")
    monkeypatch.setattr(qparams, culprit, wrong(getattr(qparams, culprit)))
    with pytest.raises(AssertionError):
        assert_equals_oracle(qdq)


@pytest.mark.parametrize("place", [0, 1], ids=["padding", "zero point of y"])
def test_planted_zero_point_is_caught(monkeypatch: pytest.MonkeyPatch, place: int):
    linear = Linear.integer_kernel

    def wrong(*args):
        spec, constants = linear(*args)
        constants["z"] = constants["z"].copy()
        constants["z"][place] += 1
        return spec, constants

    qdq = quantized("residual", "int8-asymmetric")
    monkeypatch.setattr(Linear, "integer_kernel", wrong)
    with pytest.raises(AssertionError):
        assert_equals_oracle(qdq)
