"""Operators of transformers and recurrent layers: equal to what PyTorch computed."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend import recurrent_loops
from relay_int8.frontend.folding import folded
from relay_int8.frontend.torch import import_torch
from relay_int8.frontend.torch.promotion import common_type
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import spec_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.frontend.test_torch_files import MODEL, changed, node
from tests.frontend.torch_programs import program_results
from tests.mxnet_models import run_fast, run_lowered
from tests.onnx_models import assert_close

# Programs of benchmarks.parity.torch_transformers; "core" ones went through run_decompositions().
PROGRAMS = (
    *("attention", "axes", "created", "encoder", "gru", "logic", "lstm_given", "norms", "places"),
    *("rotary", "bags", "ordered", "resized", "scattered", "synonyms"),
)
STATES = ("gru_given", "lstm", "rnn", "rnn_tanh")
DECOMPOSED = ("attention_core", "created_core", "encoder_core", "views_core")


@pytest.mark.parametrize("name", [*PROGRAMS, *STATES, "views", *DECOMPOSED])
def test_results_are_those_of_pytorch(tmp_path, name):
    file, inputs, expected = program_results(tmp_path, name)
    mod = import_torch(file)
    arrays = [inputs[str(param.name)] for param in mod["main"].params]
    found = run_fast(mod, *arrays)
    assert [array.dtype for array in found] == [array.dtype for array in expected]
    assert_close(found, expected)


@pytest.mark.fast
def test_what_depends_on_numbers_alone_is_computed_while_reading(tmp_path):
    """Masks filled part by part, angles and steps leave one operator a result behind, or two."""
    file, _, expected = program_results(tmp_path, "created")
    operators = [
        dataflow.operator(value) for _, value in dataflow.calls(import_torch(file)["main"])
    ]
    assert not {"take", "where", "equal", "sin", "floor_mod", "cumsum"} & set(operators)
    assert len(operators) <= 3 * len(expected)


@pytest.mark.fast
def test_a_length_that_the_program_leaves_open(tmp_path):
    file, inputs, expected = program_results(tmp_path, "rotary_open")
    with pytest.raises(
        FrontendError, match=r"input x leaves dimension 1 open .*inputs=\{'x': \(2, 80, 6\)\}"
    ):
        import_torch(file)
    with pytest.raises(
        ConfigError,
        match=r"\{'x': \(2, 5\)\}\): a shape of rank 2 given, 3 expected; the file has \[2, s\d+, 6\]",
    ):
        import_torch(file, inputs={"x": (2, 5)})
    longer = import_torch(file, inputs={"x": (2, 9, 6)})
    assert [dataflow.shape(var) for var in dataflow.results(longer["main"])] == [
        (2, 9, 6),
        (2, 6, 9),
        (18, 6),
    ]
    mod = import_torch(file, inputs={"x": (2, 5, 6)})
    assert_close(run_fast(mod, inputs["x"]), expected)


@pytest.mark.fast
def test_graphs_inside_the_graph_are_part_of_it(tmp_path):
    """Angles are constants, whatever setting they are computed under."""
    file, _, _ = program_results(tmp_path, "rotary")
    operators = [
        dataflow.operator(value) for _, value in dataflow.calls(import_torch(file)["main"])
    ]
    assert not {"sin", "cos"} & set(operators)


@pytest.mark.fast
def test_a_known_mask_that_excludes_nothing_is_left_out(tmp_path):
    file, _, _ = program_results(tmp_path, "attention")
    operators = [
        dataflow.operator(value) for _, value in dataflow.calls(import_torch(file)["main"])
    ]
    # Of eleven results three have no mask, one a full one; two leave something of every row. Two
    # exclude whole rows by constants and three may, by values: zeros stand for their shares. One of
    # these masks is a choice itself, and so is one of conditions.
    assert operators.count("nn.softmax") == 11
    assert operators.count("where") == 2 + (2 + 3) + 2
    assert operators.count("isnan") == 2 + 3


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "count"), [("attention", 11), ("attention_core", 11), ("encoder_core", 1)]
)
def test_attention_is_one_operator(tmp_path, name, count):
    """Masks may be computed, programs decomposed; a linear layer is one of one matrix."""
    file, _, _ = program_results(tmp_path, name)
    mod = normalize()(import_torch(file))
    kinds = [layer.kind for layer in annotate(mod, QuantConfig()).layers]
    assert kinds.count("attention") == count
    assert not {"nn.softmax", "product", "isnan", "conv2d"} & set(kinds)


@pytest.mark.fast
def test_positions_of_constants_are_computed_while_reading():
    """DeBERTa and conformers bound distances of tokens, and ask for their signs."""
    far = relax.const(np.array([-9, 0, 3]), "int64")
    bounded = relax.op.clip(far, relax.prim_value(-4), relax.prim_value(2))
    np.testing.assert_array_equal(dataflow.constant(folded(bounded)), [-4, 0, 2])
    np.testing.assert_array_equal(dataflow.constant(folded(relax.op.sign(far))), [-1, 0, 1])


@pytest.mark.fast
def test_a_state_of_zeros_is_not_multiplied(tmp_path):
    """The first step of both directions has no state; where one is given it counts."""
    file, _, _ = program_results(tmp_path, "lstm")
    operators = [
        dataflow.operator(value) for _, value in dataflow.calls(import_torch(file)["main"])
    ]
    assert operators.count("matmul") == 2 * (1 + 2)  # the input of three steps, two states
    given, _, _ = program_results(tmp_path, "lstm_given")
    operators = [
        dataflow.operator(value) for _, value in dataflow.calls(import_torch(given)["main"])
    ]
    assert operators.count("matmul") == 2 * (1 + 2)  # two layers, two steps


@pytest.mark.parametrize("name", ["gru", "lstm", "rnn_tanh"])
def test_recurrent_layers_as_loops(tmp_path, monkeypatch, name):
    """Their sequences are short: however few steps there are, they are not unrolled here."""
    monkeypatch.setattr(recurrent_loops, "FEW_STEPS", 0)
    file, inputs, expected = program_results(tmp_path, name)
    mod = import_torch(file)
    specs = [spec_of(value) for _, value in dataflow.calls(mod["main"])]
    assert {spec.kind for spec in specs if spec is not None} == {"recurrence"}
    found = run_lowered(mod, *(inputs[str(param.name)] for param in mod["main"].params))
    assert_close(found, expected)


def test_a_layer_that_projects_its_output(tmp_path):
    file, inputs, expected = program_results(tmp_path, "lstm_projected")
    mod = import_torch(file)
    found = run_lowered(mod, *(inputs[str(param.name)] for param in mod["main"].params))
    assert_close(found, expected)


@pytest.mark.fast
def test_recurrent_layers_that_are_not_read(tmp_path):
    def packed(text):
        inputs = node(text, "aten.gru")["inputs"]
        inputs.append({"name": "batch_sizes", "arg": {"as_ints": [2, 2, 1]}, "kind": 1})

    def trained(text):
        inputs = node(text, "aten.gru")["inputs"]
        for name, value in (("train", {"as_bool": True}), ("dropout", {"as_float": 0.5})):
            next(entry for entry in inputs if entry["name"] == name)["arg"] = value

    file, _, _ = program_results(tmp_path, "gru")
    with pytest.raises(UnsupportedOpError, match=r"packed sequences: .* pack_padded_sequence"):
        import_torch(changed(file, MODEL, packed))
    file, _, _ = program_results(tmp_path, "gru")
    with pytest.raises(FrontendError, match="training mode"):
        import_torch(changed(file, MODEL, trained))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        (["int64", "float32"], "float32"),
        (["uint8", "int8"], "int16"),
        (["int32", 2], "int32"),
        (["int32", 0.5], "float32"),
        (["bool", 2], "int64"),
        (["uint8", "bool"], "uint8"),
        (["int8", "int64 scalar"], "int8"),
        (["int8", "float32 scalar"], "float32"),
        ([True, 3], "int64"),
    ],
)
def test_operands_are_promoted_as_in_pytorch(operands, expected):
    """A table of torch.result_type; scalars are tensors without axes."""

    def operand(given):
        if not isinstance(given, str):
            return given
        kind, *scalar = given.split()
        return relax.const(np.ones([] if scalar else [2], kind), kind)

    assert common_type([operand(given) for given in operands]) == expected
