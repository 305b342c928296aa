"""Recurrent layers of long sequences are one operator a direction, with ONNX Runtime's floats."""

import numpy as np
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.recurrent_loops import FEW_STEPS
from relay_int8.graph import dataflow
from relay_int8.graph.batch import has_batch, with_batch
from relay_int8.graph.groups import find_groups
from relay_int8.graph.spec_calls import spec_of
from schedules.spec import Recurrence
from tests.mxnet_models import run_lowered
from tests.onnx_models import assert_close, run_onnx
from tests.recurrent_networks import BOTH, SIZE, STEPS, recurrent_model

ALL = ("Y", "Y_h", "Y_c")
CASES = {
    "lstm": ("LSTM", {"outputs": ALL}),
    "lstm_both": ("LSTM", {"outputs": ALL, "direction": BOTH, "batch": 2}),
    "lstm_zeros": ("LSTM", {"outputs": ("", "Y_h"), "direction": "reverse", "states": True}),
    "gru": ("GRU", {"outputs": ALL[:2], "direction": BOTH}),
    "gru_product": ("GRU", {"outputs": ALL[:2], "linear_before_reset": 1, "batch": 2}),
    "lstm_given": ("LSTM", {"outputs": ALL, "direction": BOTH, "given": True}),
    "gru_given": ("GRU", {"outputs": ALL[:2], "given": True, "linear_before_reset": 1, "batch": 2}),
    "rnn": ("RNN", {"outputs": ALL[:2], "direction": "reverse"}),
}


def specs_of(mod) -> list[Recurrence]:
    found = [spec_of(value) for _, value in dataflow.calls(mod["main"])]
    return [spec for spec in found if isinstance(spec, Recurrence)]


def arrays(proto, seed: int = 1) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [x.type.tensor_type.shape.dim for x in proto.graph.input]
    return [rng.normal(size=[dim.dim_value for dim in dims]).astype(np.float32) for dims in shapes]


def sequence(proto) -> np.ndarray:
    return arrays(proto)[0]


@pytest.mark.parametrize("case", CASES)
def test_equals_onnxruntime(case):
    operator, options = CASES[case]
    proto = recurrent_model(operator, **options)
    inputs, mod = arrays(proto), import_onnx(proto)
    assert_close(run_lowered(mod, *inputs), run_onnx(proto, *inputs))
    kinds = [group.kind for group in find_groups(normalize()(mod)["main"])]
    memories = "Y_c" in options["outputs"]
    assert kinds.count("recurrence") == (1 + (options.get("direction") == BOTH)) * (1 + memories)
    assert len(kinds) < 30


@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_batches_first(operator):
    proto = recurrent_model(operator, outputs=ALL[:2], layout=1, direction=BOTH, batch=2)
    x, mod = sequence(proto), import_onnx(proto)
    assert [spec.time for spec in specs_of(mod)] == [1, 1]
    assert_close(run_lowered(mod, x), ReferenceEvaluator(proto).run(None, {"x": x}))


@pytest.mark.fast
def test_results_that_are_not_read_are_not_computed():
    proto = recurrent_model("LSTM", outputs=ALL)
    del proto.graph.output[1:]
    (spec,) = specs_of(normalize()(import_onnx(proto)))
    assert spec.gives == "outputs" and spec.multiplications == STEPS * 4 * 20 * 20


@pytest.mark.fast
@pytest.mark.parametrize(
    "options", [{"clip": 0.5}, {"activations": ["Sigmoid", "Tanh", "Relu"]}, {"input_forget": 1}]
)
def test_what_no_loop_computes_is_unrolled(options):
    assert not specs_of(import_onnx(recurrent_model("LSTM", **options)))


@pytest.mark.fast
def test_few_steps_are_unrolled():
    proto = recurrent_model("LSTM")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = FEW_STEPS
    assert not specs_of(import_onnx(proto))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = FEW_STEPS + 1
    assert [spec.steps for spec in specs_of(import_onnx(proto))] == [FEW_STEPS + 1]


@pytest.mark.fast
def test_more_steps_than_are_unrolled_are_a_loop():
    proto = recurrent_model("GRU")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3000
    assert [spec.steps for spec in specs_of(import_onnx(proto))] == [3000]


@pytest.mark.fast
@pytest.mark.parametrize("operator", ["LSTM", "GRU"])
def test_a_first_state_that_was_learned(operator):
    proto = recurrent_model(operator, given=True)
    _, *states = arrays(proto)
    names = [x.name for x in proto.graph.input[1:]]
    del proto.graph.input[1:]
    proto.graph.initializer.extend(map(numpy_helper.from_array, states, names))
    mod = normalize()(import_onnx(proto))
    assert "recurrence" in [group.kind for group in find_groups(mod["main"])]
    assert_close(run_lowered(mod, sequence(proto)), run_onnx(proto, sequence(proto)))


@pytest.mark.fast
def test_another_batch_of_states():
    """States follow the batch where that is an axis of theirs; states of no batch are refused."""
    proto = recurrent_model("LSTM", layout=1, given=True, batch=2)
    (spec,) = specs_of(with_batch(normalize()(import_onnx(proto)), 6))
    assert spec.batch == 6 and spec.shape("c") == (6, 20)
    assert not has_batch(normalize()(import_onnx(recurrent_model("LSTM", given=True))))


@pytest.mark.fast
def test_another_batch():
    """The batch is followed where it is an axis of its own; steps are no images."""
    first = normalize()(import_onnx(recurrent_model("LSTM", layout=1, batch=2)))
    assert has_batch(first)
    (spec,) = specs_of(with_batch(first, 5))
    assert spec.batch == 5 and spec.shape("x") == (5, STEPS, 80)
    assert not has_batch(normalize()(import_onnx(recurrent_model("LSTM"))))
    assert SIZE == 12
