"""ONNX's LSTM, GRU and RNN of few steps give what ONNX Runtime gives; some are refused."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from relay_int8.api.model import load_model
from relay_int8.api.preview import preview
from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, model, run_onnx

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, SIZE, HIDDEN = 3, 2, 5, 3
BOTH = "bidirectional"

CASES = {
    "lstm": ("LSTM", {}),
    "lstm_reverse": ("LSTM", {"direction": "reverse", "given": "BL"}),
    "lstm_states": ("LSTM", {"direction": BOTH, "given": "Bhc"}),
    "lstm_peepholes": ("LSTM", {"direction": BOTH, "given": "BhcP"}),
    "lstm_clipped": ("LSTM", {"clip": 0.5, "given": "BhcP"}),
    "lstm_coupled": ("LSTM", {"input_forget": 1, "given": "BcP"}),
    "lstm_functions": (
        "LSTM",
        {
            "activations": ["HardSigmoid", "Relu", "HardSigmoid"],
            "activation_alpha": [0.1, 0.3],
            "activation_beta": [0.4],
            "given": "Bhc",
        },
    ),
    "gru": ("GRU", {}),
    "gru_state": ("GRU", {"direction": BOTH, "given": "Bh"}),
    "gru_unbiased": ("GRU", {"direction": "reverse", "given": "Lh"}),
    "gru_clipped": ("GRU", {"clip": 0.3, "given": "Bh"}),
    "gru_product": ("GRU", {"linear_before_reset": 1}),
    "gru_product_state": ("GRU", {"linear_before_reset": 1, "direction": BOTH, "given": "Bh"}),
    "gru_product_clipped": ("GRU", {"linear_before_reset": 1, "clip": 0.3, "given": "Bh"}),
    "rnn": ("RNN", {"direction": BOTH, "given": "Bh"}),
    "rnn_clipped": ("RNN", {"direction": "reverse", "clip": 0.4}),
    "rnn_functions": ("RNN", {"direction": BOTH, "activations": ["Relu", "Sigmoid"]}),
}


def recurrent(
    operator: str,
    *,
    given: str = "B",
    outputs: list[str] | None = None,
    lengths: tuple[int, ...] = (STEPS,) * BATCH,
    **attributes,
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Return a model of one node, and its inputs; ``given`` are the optional operands it has.

    B bias, L lengths, h and c states before the first step, P peepholes.
    """
    rng = np.random.default_rng(0)
    directions = 1 + (attributes.get("direction") == BOTH)
    is_batch_first = attributes.get("layout", 0)
    rows = GATES[operator] * HIDDEN
    sizes = (BATCH, STEPS) if is_batch_first else (STEPS, BATCH)
    state = (BATCH, directions, HIDDEN) if is_batch_first else (directions, BATCH, HIDDEN)
    inputs = {"x": rng.normal(size=(*sizes, SIZE)).astype("f4")}
    inputs |= {name: rng.normal(size=state).astype("f4") for name in "hc" if name in given}
    weights = {
        "W": rng.normal(size=(directions, rows, SIZE)).astype("f4"),
        "R": rng.normal(size=(directions, rows, HIDDEN)).astype("f4"),
        "B": rng.normal(size=(directions, 2 * rows)).astype("f4"),
        "L": np.array(lengths, "i4"),
        "P": rng.normal(size=(directions, 3 * HIDDEN)).astype("f4"),
    }
    optional = {name: name if name in given else "" for name in "BLhcP"}
    names = ["x", "W", "R", *optional.values()]
    while not names[-1]:
        names.pop()
    outputs = outputs or ["Y", "Y_h", "Y_c"][: 3 if operator == "LSTM" else 2]
    node = helper.make_node(operator, names, outputs, "layer", hidden_size=HIDDEN, **attributes)
    proto = model(
        [node],
        {name: array.shape for name, array in inputs.items()},
        {name: None for name in outputs if name},
        {name: array for name, array in weights.items() if name in names},
        opset=14,
    )
    return proto, list(inputs.values())


@pytest.mark.parametrize("case", CASES)
def test_equals_onnxruntime(case):
    operator, options = CASES[case]
    proto, inputs = recurrent(operator, **options)
    assert_close(run_fast(import_onnx(proto), *inputs), run_onnx(proto, *inputs))


@pytest.mark.parametrize("operator", GATES)
def test_batches_first(operator):
    """ONNX Runtime does not read this layout, ONNX's reference implementation does."""
    given = "Bhc" if operator == "LSTM" else "Bh"
    proto, inputs = recurrent(operator, given=given, layout=1, direction=BOTH)
    names = [value.name for value in proto.graph.input]
    feeds = dict(zip(names, inputs[: len(names)], strict=True))
    expected = ReferenceEvaluator(proto).run(None, feeds)
    assert_close(run_fast(import_onnx(proto), *inputs), expected)


@pytest.mark.parametrize("outputs", [["Y"], ["", "Y_h"], ["", "", "Y_c"], ["Y", "", "Y_c"]])
def test_results_that_are_left_out(outputs):
    proto, inputs = recurrent("LSTM", outputs=outputs)
    assert_close(run_fast(import_onnx(proto), *inputs), run_onnx(proto, *inputs))


def test_weights_that_are_computed():
    """They are inputs here; a weight of each direction is cut out."""
    proto, inputs = recurrent("GRU", direction=BOTH)
    for tensor in list(proto.graph.initializer):
        if tensor.name in ("R", "B"):
            proto.graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
            inputs.append(onnx.numpy_helper.to_array(tensor))
            proto.graph.initializer.remove(tensor)
    assert_close(run_fast(import_onnx(proto), *inputs), run_onnx(proto, *inputs))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("operator", "options", "products"),
    [
        ("LSTM", {}, 1 + STEPS - 1),
        ("LSTM", {"given": "Bhc", "direction": BOTH}, 2 * (1 + STEPS)),
        ("GRU", {}, 1 + 2 * (STEPS - 1)),
        ("GRU", {"linear_before_reset": 1}, 1 + STEPS - 1),
    ],
)
def test_inputs_of_all_steps_are_one_product(operator, options, products):
    """A state of zeros has none."""
    proto, _ = recurrent(operator, **options)
    calls = [value for _, value in dataflow.calls(import_onnx(proto)["main"])]
    sizes = [dataflow.shape(v.args[0]) for v in calls if dataflow.operator(v) == "matmul"]
    directions = 1 + ("direction" in options)
    assert len(sizes) == products
    assert sizes.count((STEPS, BATCH, SIZE)) == directions
    assert sizes.count((BATCH, HIDDEN)) == products - directions


@pytest.mark.fast
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"given": "L", "lengths": (3, 2)}, r"sequence_lens are \[3, 2\] of 3 steps"),
        ({"activations": ["Sigmoid", "Softsign", "Tanh"]}, "activation is Softsign; only Sigmoid,"),
        ({"activations": ["Sigmoid"]}, r"activations are \['Sigmoid'\]; expected 3 for each"),
        ({"direction": "backward"}, "direction is backward; expected one of forward, reverse, bi"),
    ],
)
def test_refusals(options, message):
    proto, _ = recurrent("LSTM", **options)
    with pytest.raises(UnsupportedOpError, match=rf"layer \(LSTM\).*{message}"):
        import_onnx(proto)


@pytest.mark.fast
def test_lengths_that_are_computed():
    proto, _ = recurrent("LSTM", given="BL")
    lengths = next(tensor for tensor in proto.graph.initializer if tensor.name == "L")
    proto.graph.input.append(helper.make_tensor_value_info("L", lengths.data_type, lengths.dims))
    proto.graph.initializer.remove(lengths)
    with pytest.raises(
        UnsupportedOpError, match=r"layer.*sequence_lens are computed, not constant"
    ):
        import_onnx(proto)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("W", (1, 12, 4), r"weights of the input is \(12, 4\), expected \(12, 5\)"),
        ("R", (1, 11, 3), r"weights of the state are \(11, 3\), of 4 gates"),
        ("B", (1, 12), r"bias is \(6,\), expected \(12,\)"),
        ("P", (1, 6), r"peepholes are \(6,\), expected \(9,\)"),
        ("R", (2, 12, 3), r"operand 2 is \[2, 12, 3\], of 1 directions"),
    ],
)
def test_weights_of_other_sizes(name, sizes, message):
    proto, _ = recurrent("LSTM", given="BP")
    tensor = next(tensor for tensor in proto.graph.initializer if tensor.name == name)
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.ones(sizes, "f4"), name))
    with pytest.raises(UnsupportedOpError, match=rf"layer \(LSTM\).*{message}"):
        import_onnx(proto)


@pytest.mark.fast
def test_more_steps_than_are_unrolled():
    proto, _ = recurrent("RNN", direction=BOTH, activations=["Relu", "Relu"])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1025
    with pytest.raises(UnsupportedOpError, match=r"layer \(RNN\).*2050 steps.*at most 2048 are un"):
        import_onnx(proto)


@pytest.mark.fast
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "GRU_product", "RNN"])
def test_all_steps_can_be_integers(tmp_path, operator):
    """The first one too, whose state is zero: a layer in float there would spread to all others."""
    name, product = operator.split("_")[0], operator.endswith("product")
    proto, _ = recurrent(name, outputs=["Y"], **({"linear_before_reset": 1} if product else {}))
    onnx.save(proto, tmp_path / "network.onnx")
    reasons = preview(load_model(tmp_path / "network.onnx")).coverage["reasons"]
    assert set(reasons) <= {"no integer operator reads its result"}  # what follows the last product
