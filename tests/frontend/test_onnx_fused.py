"""Operators that ONNX Runtime's optimizers write: equal to ONNX Runtime's results, or refused."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.frontend.test_onnx_functions import one_node
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, model, run_onnx

RNG = np.random.default_rng(3)
MS = "com.microsoft"


def f32(*shape):
    return RNG.normal(size=shape).astype("float32")


def s8(*shape):
    return RNG.integers(-127, 128, shape).astype("int8")


def fused(op, arrays, *, outputs=("y",), **how):
    proto = one_node(op, arrays, outputs=outputs, opset=17, **how)
    proto.ir_version = 9
    proto.graph.node[0].domain = MS
    proto.opset_import.append(helper.make_opsetid(MS, 1))
    return proto


X, SKIP, GAMMA, BETA = f32(2, 5, 8), f32(2, 5, 8), f32(8), f32(8)
IDS = RNG.integers(0, 9, (2, 5)).astype("int32")
KEPT = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], "int32")
KEPT_PAST = np.hstack([np.ones((2, 3), "int32"), KEPT])
ANGLES = np.cos(f32(9, 2)), np.sin(f32(9, 2))
W, BIAS = f32(8, 24), f32(24)
IMAGE, KERNEL = f32(1, 3, 6, 6), f32(4, 3, 3, 3)
TABLES = {"words": f32(9, 8), "places": f32(6, 8), "kinds": f32(2, 8)}
CASES = {
    "gelu": ("Gelu", {"x": X}, {}),
    "gelu of a sum": ("BiasGelu", {"x": X, "b": BETA}, {}),
    "fast gelu": ("FastGelu", {"x": X, "b": BETA}, {}),
    "quick gelu": ("QuickGelu", {"x": X}, {"alpha": 1.5}),
    "product": ("FusedMatMul", {"a": X, "b": f32(2, 7, 8)}, {"transB": 1, "alpha": 0.3}),
    "product of turned": ("FusedMatMul", {"a": X, "b": f32(2, 5, 7)}, {"transA": 1}),
    "convolution": (
        "FusedConv",
        {"x": IMAGE, "w": KERNEL, "b": f32(4)},
        {"constants": ("w", "b"), "activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    "convolution and sum": (
        "FusedConv",
        {"x": IMAGE, "w": KERNEL, "b": f32(4), "z": f32(1, 4, 4, 4)},
        {"constants": ("w", "b"), "activation": "Relu"},
    ),
    "convolution and hard sigmoid": (
        "FusedConv",
        {"x": IMAGE, "w": KERNEL},
        {"constants": ("w",), "activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    "gemm and softplus": (
        "FusedGemm",
        {"a": f32(3, 6), "b": f32(6, 4), "c": f32(4)},
        {"activation": "Softplus"},
    ),
    "gemm and softsign": (
        "FusedGemm",
        {"a": f32(3, 6), "b": f32(6, 4), "c": f32(4)},
        {"activation": "Softsign"},
    ),
    "gemm": (
        "FusedGemm",
        {"x": f32(2, 8), "w": f32(5, 8), "b": f32(5)},
        {"constants": ("w", "b"), "transB": 1, "activation": "Relu"},
    ),
    "norm of a sum": (
        "SkipLayerNormalization",
        {"x": X, "s": SKIP, "g": GAMMA, "b": BETA, "c": f32(8)},
        {"epsilon": 1e-3, "outputs": ("y", "", "", "sum")},
    ),
    "norm without shift": ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": GAMMA}, {}),
    "root mean square": (
        "SkipSimplifiedLayerNormalization",
        {"x": X, "s": SKIP, "g": GAMMA},
        {"outputs": ("y", "", "", "sum")},
    ),
    "embeddings": (
        "EmbedLayerNormalization",
        {"ids": IDS, "kind": IDS % 2, **TABLES, "g": GAMMA, "b": BETA},
        {"constants": (*TABLES, "g", "b"), "outputs": ("y", "")},
    ),
    "attention": ("Attention", {"x": X, "w": W, "b": BIAS}, {"num_heads": 2}),
    "masked attention": (
        "Attention",
        {"x": X, "w": W, "b": BIAS, "mask": KEPT},
        {"constants": ("w", "b"), "num_heads": 2},
    ),
    "attention to the first keys": (
        "Attention",
        {"x": X, "w": W, "b": BIAS, "mask": KEPT.sum(1).astype("int32")},
        {"num_heads": 4},
    ),
    "causal attention": (
        "Attention",
        {"x": X, "w": f32(8, 28), "b": f32(28)},
        {"num_heads": 4, "unidirectional": 1, "qkv_hidden_sizes": [8, 8, 12], "scale": 0.2},
    ),
    "biased attention": (
        "Attention",
        {"x": X, "w": W, "b": BIAS, "mask": None, "past": None, "bias": f32(2, 2, 5, 5)},
        {"num_heads": 2},
    ),
    "continued attention": (
        "Attention",
        {"x": X, "w": W, "b": BIAS, "mask": KEPT_PAST, "past": f32(2, 2, 2, 3, 4)},
        {"num_heads": 2, "unidirectional": 1, "outputs": ("y", "present")},
    ),
    "attention to keys between two": (
        "Attention",
        {"x": X, "w": W, "b": BIAS, "mask": np.array([5, 3, 0, 1], "int32")},
        {"num_heads": 2},
    ),
    "product of turned batches": (
        "FusedMatMul",
        {"a": f32(8, 2, 3, 5), "b": f32(2, 3, 4, 8)},
        {"transBatchA": 1, "transA": 1, "transB": 1},
    ),
    "attention to given heads": (
        "MultiHeadAttention",
        {"q": X, "k": f32(2, 2, 6, 4), "v": f32(2, 2, 6, 4), "b": f32(24)},
        {"num_heads": 2},
    ),
    "continued attention of three": (
        "MultiHeadAttention",
        dict(q=X, k=X, v=SKIP, b=None, m=None, bias=f32(1, 2, 5, 8))
        | dict(pk=f32(2, 2, 3, 4), pv=f32(2, 2, 3, 4)),
        {"num_heads": 2, "outputs": ("y", "keys", "values")},
    ),
    "lower triangle": ("Trilu", {"x": f32(4, 4)}, {"upper": 0}),
    "rotary positions": (
        "RotaryEmbedding",
        {"x": X, "at": np.array([[0, 3, 1, 2, 5]] * 2), "cos": ANGLES[0], "sin": ANGLES[1]},
        {"constants": ("cos", "sin"), "num_heads": 2},
    ),
    "interleaved rotary positions": (
        "RotaryEmbedding",
        {"x": f32(2, 3, 5, 4), "at": np.array([2]), "cos": ANGLES[0], "sin": ANGLES[1]},
        {"constants": ("cos", "sin"), "interleaved": 1},
    ),
    "rotary positions of a part": (
        "RotaryEmbedding",
        {"x": X, "at": np.array([1]), "cos": ANGLES[0], "sin": ANGLES[1]},
        {"constants": ("at", "cos", "sin"), "num_heads": 1, "rotary_embedding_dim": 4},
    ),
    "samples": (
        "GridSample",
        {"x": IMAGE, "grid": f32(1, 4, 4, 2)},
        {"mode": "bilinear", "padding_mode": "border"},
    ),
    "attention of three": (
        "MultiHeadAttention",
        {"q": X, "k": f32(2, 6, 8), "v": f32(2, 6, 4), "b": f32(20)},
        {"num_heads": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnx_runtime(case):
    op, arrays, attributes = CASES[case]
    proto = fused(op, arrays, **attributes)
    given = [arrays[info.name] for info in proto.graph.input]
    assert_close(run_fast(import_onnx(proto), *given), run_onnx(proto, *given))


@pytest.mark.parametrize("zero", [None, np.array(3, "int8")])
def test_a_product_with_integers_is_that_of_a_float_network(zero):
    """Ranges that ONNX Runtime finds in every run are those of calibration here."""
    b, scale = s8(8, 5), np.array(0.02, "float32")
    arrays = {"a": f32(2, 8), "b": b, "scale": scale, "zero": zero, "c": f32(5)}
    kept = tuple(name for name in arrays if name != "a" and arrays[name] is not None)
    proto = fused("DynamicQuantizeMatMul", arrays, constants=kept)
    mod = import_onnx(proto)
    assert "quantize" not in [operator(value) for _, value in calls(mod["main"])]
    offset = 0 if zero is None else int(zero)
    expected = arrays["a"] @ ((b.astype("float32") - offset) * scale) + arrays["c"]
    assert_close(run_fast(mod, arrays["a"]), [expected])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("op", "arrays", "attributes", "reason"),
    [
        (
            "Attention",
            {"x": X, "w": W, "b": BIAS, "m": None, "p": f32(2, 2, 2, 9, 4)},
            {"past_present_share_buffer": 1},
            "shared past",
        ),
        ("Attention", {"x": X, "w": W, "b": BIAS}, {"do_rotary": 1}, "do_rotary"),
        ("Attention", {"x": X, "w": W, "b": BIAS, "m": KEPT[:, :, None]}, {}, r"a mask of \["),
        ("MultiHeadAttention", {"q": X}, {}, "keys or values are missing"),
        ("FusedConv", {"x": IMAGE, "w": KERNEL}, {"activation": "Mish"}, "Mish"),
    ],
)
def test_what_is_not_read_is_refused(op, arrays, attributes, reason):
    heads = {"num_heads": 2} if op.endswith("Attention") else {}
    with pytest.raises(UnsupportedOpError, match=reason):
        import_onnx(fused(op, arrays, **heads, **attributes))


@pytest.mark.fast
def test_the_norm_that_onnx_runtime_writes_as_a_standard_operator():
    proto = one_node("SimplifiedLayerNormalization", {"x": X, "g": GAMMA}, opset=17)
    assert proto.graph.node[0].domain == ""
    root = np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5)
    mod = import_onnx(proto)
    assert "nn.rms_norm" in [operator(value) for _, value in calls(mod["main"])]
    assert_close(run_fast(mod, X, GAMMA), [X / root * GAMMA])


@pytest.mark.fast
def test_unknown_operators_are_named_with_their_domain():
    with pytest.raises(UnsupportedOpError, match=r"com.microsoft.WordConvEmbedding \(node\)"):
        import_onnx(fused("WordConvEmbedding", {"x": X}))


@pytest.mark.fast
def test_of_many_nodes_that_are_unknown_a_few_are_named():
    proto = fused("WordConvEmbedding", {"x": X})
    (node,) = proto.graph.node
    for i in range(8):
        before = proto.graph.node.add()
        before.CopyFrom(node)
        before.name, before.output[0], node.input[0] = f"node{i}", f"x{i}", f"x{i}"
    with pytest.raises(UnsupportedOpError, match=r"^1 kind of .*node\d and 4 more\)"):
        import_onnx(proto)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("op", "domain", "advice"),
    [
        ("ReorderInput", "com.microsoft.nchwc", "ORT_ENABLE_EXTENDED"),
        ("RemovePadding", MS, "packing mode"),
        ("EPContext", MS, "before that"),
        ("BeamSearch", MS, "the encoder and the decoder"),
    ],
)
def test_what_is_bound_to_a_machine_is_refused_with_advice(op, domain, advice):
    proto = fused(op, {"x": X})
    proto.graph.node[0].domain = domain
    with pytest.raises(UnsupportedOpError, match=advice):
        import_onnx(proto)


@pytest.mark.parametrize("packed", [False, True])
def test_keys_packed_with_values_or_queries(packed):
    """As diffusion models have them on GPUs; ONNX Runtime's CPU kernels read none."""
    q, k, v = f32(2, 5, 2, 4), f32(2, 5, 2, 4), f32(2, 5, 2, 4)
    if packed:
        arrays = {"q": np.stack([q, k, v], 3)}
    else:
        arrays = {"q": q.reshape(2, 5, 8), "k": np.stack([k, v], 3)}
    rows = {name: x.reshape(2, 5, 8) for name, x in {"q": q, "k": k, "v": v}.items()}
    expected = run_onnx(fused("MultiHeadAttention", rows, num_heads=2), *rows.values())
    mod = import_onnx(fused("MultiHeadAttention", arrays, num_heads=2))
    assert_close(run_fast(mod, *arrays.values()), expected)


def test_halves_gates_and_biases_of_diffusion_models():
    x, bias = f32(2, 5, 8), f32(8)
    gelu = run_onnx(fused("Gelu", {"x": (x + bias)[..., 4:]}), (x + bias)[..., 4:])[0]
    assert_close(
        run_fast(import_onnx(fused("BiasSplitGelu", {"x": x, "b": bias})), x, bias),
        [(x + bias)[..., :4] * gelu],
    )
    mod = import_onnx(fused("BiasAdd", {"x": x, "b": bias, "s": SKIP}))
    assert_close(run_fast(mod, x, bias, SKIP), [x + bias + SKIP])


def test_integers_of_averages_and_choices():
    """QOperator nodes, as the pairs they stand for."""
    x = RNG.integers(0, 256, (1, 3, 6, 6)).astype("uint8")
    s, z = np.array(0.1, "float32"), np.array(7, "uint8")
    names = {"s": s, "z": z, "t": np.array(0.08, "float32")}
    nodes = [
        helper.make_node(
            "QLinearAveragePool",
            ["x", "s", "z", "t", "z"],
            ["pooled"],
            domain=MS,
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        helper.make_node("DequantizeLinear", ["pooled", "t", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [
            helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(a.dtype), [], [a])
            for n, a in names.items()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    mean = (x.astype("f4") - 7).reshape(1, 3, 3, 2, 3, 2).mean((3, 5)) * 0.1
    expected = (np.clip(np.rint(mean / np.float32(0.08)) + 7, 0, 255) - 7) * np.float32(0.08)
    np.testing.assert_allclose(run_fast(import_onnx(proto), x)[0], expected, atol=0.0801)


@pytest.mark.parametrize("by_gate", [False, True])
def test_an_lstm_of_integers_is_that_of_a_float_network(by_gate):
    """Ranges that ONNX Runtime finds in every run are left out: the weights alone are integers."""
    steps, size, hidden = 5, 6, 7
    scales = (2, 4 * hidden) if by_gate else (2,)
    w, r = s8(2, size, 4 * hidden), s8(2, hidden, 4 * hidden)
    parameters = {
        "sw": RNG.uniform(0.002, 0.004, scales).astype("float32"),
        "zw": np.zeros(scales, "int8"),
        "sr": RNG.uniform(0.002, 0.004, scales).astype("float32"),
        "zr": np.full(scales, 3, "int8"),
    }
    bias, x = f32(2, 8 * hidden), f32(steps, 1, size)
    how = {"hidden_size": hidden, "direction": "bidirectional"}
    proto = model(
        [
            helper.make_node(
                "DynamicQuantizeLSTM",
                ["x", "w", "r", "b", "", "", "", "", *parameters],
                ["y"],
                domain=MS,
                **how,
            )
        ],
        {"x": x.shape},
        {"y": None},
        {"w": w, "r": r, "b": bias, **parameters},
    )
    proto.opset_import.append(helper.make_opsetid(MS, 1))
    reals = {
        name: ((q - parameters["z" + name].reshape(2, 1, -1).astype("float32"))
               * parameters["s" + name].reshape(2, 1, -1)).transpose(0, 2, 1)
        for name, q in {"w": w, "r": r}.items()
    }  # fmt: skip
    plain = model(
        [helper.make_node("LSTM", ["x", "w", "r", "b"], ["y"], **how)],
        {"x": x.shape},
        {"y": None},
        {**reals, "b": bias},
    )
    assert_close(run_fast(import_onnx(proto), x), run_onnx(plain, x))
