"""MXNet's recurrent layers beside NumPy's words for them, weights in one vector."""

import numpy as np
import pytest

from relay_int8.errors import FrontendError, UnsupportedOpError
from tests.mxnet_models import MxnetModel, run_fast

STEPS, BATCH, WIDTH, HIDDEN = 4, 2, 3, 5
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def stepped(mode, of_x, of_h, h, c):
    """Return the state after a step, of the products of input and state with their biases."""
    if mode == "lstm":
        i, f, g, o = np.split(of_x + of_h, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if mode == "gru":
        (r, z, n), (hr, hz, hn) = np.split(of_x, 3, 1), np.split(of_h, 3, 1)
        z = sigmoid(z + hz)
        return (1 - z) * np.tanh(n + sigmoid(r + hr) * hn) + z * h, c
    return (np.tanh if mode == "rnn_tanh" else lambda x: x.clip(0))(of_x + of_h), c


def reference(mode, x, weights, biases, layers, directions, projections=()):
    """Return the outputs and the last states of all layers and directions."""
    last, output = [], len(projections[0]) if projections else HIDDEN
    for layer in range(layers):
        found = []
        for direction in range(directions):
            place = 2 * (layer * directions + direction)
            (w, u), (b, d) = weights[place : place + 2], biases[place : place + 2]
            h, c = np.zeros((BATCH, output)), np.zeros((BATCH, HIDDEN))
            outputs = []
            for row in x[::-1] if direction else x:
                h, c = stepped(mode, row @ w.T + b, h @ u.T + d, h, c)
                h = h @ projections[place // 2].T if projections else h
                outputs.append(h)
            found.append(np.stack(outputs[::-1] if direction else outputs))
            last.append((h, c))
        x = np.concatenate(found, 2)
    return x, np.stack([h for h, _ in last]), np.stack([c for _, c in last])


def network(mode, layers=1, directions=1, projected=0, **attributes):
    """Return a network as Gluon writes it, and its weights, biases and projections."""
    net, rows, output = MxnetModel(seed=3), GATES[mode] * HIDDEN, projected or HIDDEN
    widths = [WIDTH, *[output * directions] * (layers - 1)]
    shapes = [shape for width in widths for shape in [(rows, width), (rows, output)] * directions]
    weights = [net.rng.normal(0, 0.5, shape).astype("f4") for shape in shapes]
    biases = [net.rng.normal(0, 0.3, rows).astype("f4") for _ in shapes]
    projections = []
    if projected:
        attributes["projection_size"] = projected
        projections = [
            net.rng.normal(0, 0.5, (projected, HIDDEN)).astype("f4") for _ in biases[::2]
        ]
    rest = iter(projections)
    matrices = [
        part
        for place in range(0, len(weights), 2)
        for part in (*weights[place : place + 2], *([next(rest)] if projected else []))
    ]
    parts = [
        net.op("Reshape", f"flat{place}", net.variable(f"w{place}", array), shape="(-1,)")
        for place, array in enumerate((*matrices, *biases))
    ]
    vector = net.op("_rnn_param_concat", "vector", *parts, dim=0, num_args=len(parts))
    states = [
        net.op("_zeros", f"zeros{place}", shape=(layers * directions, 0, width))
        for place, width in enumerate([output, HIDDEN] if mode == "lstm" else [HIDDEN])
    ]
    y = net.op(
        "RNN", "y", net.variable("x"), vector, *states, mode=mode, num_layers=layers,
        state_size=HIDDEN, state_outputs=True, bidirectional=directions == 2, **attributes,
    )  # fmt: skip
    return net, y, weights, biases, projections


@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 2)])
def test_an_lstm_that_projects_its_output(tmp_path, layers, directions):
    net, (y, _), weights, biases, projections = network("lstm", layers, directions, projected=2)
    x = net.rng.normal(size=(STEPS, BATCH, WIDTH)).astype("f4")
    mod = net.imported(tmp_path, *[(y, place) for place in range(3)], x=x.shape)
    wanted = reference("lstm", x, weights, biases, layers, directions, projections)
    for found, expected in zip(run_fast(mod, x), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (2, 2)])
def test_recurrent_layers(tmp_path, mode, layers, directions):
    net, (y, _), weights, biases, _ = network(mode, layers, directions)
    count = 3 if mode == "lstm" else 2
    x = net.rng.normal(size=(STEPS, BATCH, WIDTH)).astype("f4")
    mod = net.imported(tmp_path, *[(y, place) for place in range(count)], x=x.shape)
    wanted = reference(mode, x, weights, biases, layers, directions)[:count]
    for found, expected in zip(run_fast(mod, x), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("attributes", "error", "reason"),
    [
        ({"use_sequence_length": True}, UnsupportedOpError, "shorter than the tensor"),
        ({"projection_size": 3}, FrontendError, "of a layer that is no LSTM"),
        ({"lstm_state_clip_min": -1}, UnsupportedOpError, "a state that is clipped"),
        ({"state_size": 4}, FrontendError, "weights; 1 layers of 4 have"),
    ],
)
def test_what_is_refused(tmp_path, attributes, error, reason):
    net, y, *_ = network("gru")
    net.nodes[-1]["attrs"].update({name: str(value) for name, value in attributes.items()})
    with pytest.raises(error, match=reason):
        net.imported(tmp_path, y, x=(STEPS, BATCH, WIDTH))
