"""MXNet's operators with attributes and shapes, each beside NumPy's or ONNX Runtime's words for it."""

import math

import numpy as np
from onnx import helper

from tests.onnx_models import model, run_onnx

IMAGE = (2, 6, 7, 9)
ROWS = (4, 12)


def onnx(op, inputs, **attrs):
    """Compute one ONNX operator."""
    names = [f"i{place}" for place in range(len(inputs))]
    node = helper.make_node(op, names, ["y"], **attrs)
    shapes = {name: x.shape for name, x in zip(names, inputs, strict=True)}
    return run_onnx(model([node], shapes, {"y": None}), *inputs)[0]


def conv(**attrs):
    return lambda *x: onnx("Conv", x, **attrs)


def softmax(x, axis):
    grown = np.exp(x - x.max(axis, keepdims=True))
    return grown / grown.sum(axis, keepdims=True)


erf = np.vectorize(math.erf)

# Operator, attributes, shapes of data, shapes of weights, reference of all of them.
WEIGHTED = [
    ("Convolution", {"kernel": (3, 2), "num_filter": 4}, [IMAGE], [(4, 6, 3, 2), (4,)], conv()),
    ("Convolution_v1",
     {"kernel": "(3L, 3L)", "num_filter": 4, "stride": (2, 1), "pad": (1, 2), "dilate": (2, 1)},
     [IMAGE], [(4, 6, 3, 3), (4,)], conv(strides=[2, 1], pads=[1, 2, 1, 2], dilations=[2, 1])),
    ("Convolution", {"kernel": (1, 1), "num_filter": 4, "num_group": 2, "no_bias": "1"},
     [IMAGE], [(4, 3, 1, 1)], conv(group=2)),
    ("Convolution", {"kernel": (3,), "num_filter": 4, "pad": 1}, [(2, 6, 9)],
     [(4, 6, 3), (4,)], conv(pads=[1, 1])),
    ("Convolution", {"kernel": (1, 2, 3), "num_filter": 4, "layout": "NCDHW"}, [(1, 2, 3, 4, 5)],
     [(4, 2, 1, 2, 3), (4,)], conv()),
    ("Deconvolution", {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "pad": (1, 1)},
     [IMAGE], [(6, 4, 4, 4)],
     lambda *x: onnx("ConvTranspose", x, strides=[2, 2], pads=[1, 1, 1, 1])),
    ("Deconvolution",
     {"kernel": (3, 3), "num_filter": 6, "num_group": 2, "stride": (2, 2), "adj": (1, 1),
      "no_bias": False},
     [IMAGE], [(6, 3, 3, 3), (6,)],
     lambda *x: onnx("ConvTranspose", x, strides=[2, 2], output_padding=[1, 1], group=2)),
    ("Deconvolution", {"kernel": (4, 4), "num_filter": 4, "stride": (2, 2), "target_shape": (14, 17)},
     [IMAGE], [(6, 4, 4, 4)],
     lambda *x: onnx("ConvTranspose", x, strides=[2, 2], pads=[1, 2, 1, 2], output_padding=[0, 1])),
    ("UpSampling", {"scale": 2, "sample_type": "bilinear", "num_args": 2}, [IMAGE], [(6, 1, 4, 4)],
     lambda *x: onnx("ConvTranspose", x, strides=[2, 2], pads=[1] * 4, group=6)),
    ("UpSampling", {"scale": 3, "sample_type": "bilinear", "num_args": 2}, [IMAGE], [(6, 1, 5, 5)],
     lambda *x: onnx("ConvTranspose", x, strides=[3, 3], pads=[1] * 4, group=6)),
    ("FullyConnected", {"num_hidden": 5}, [IMAGE], [(5, 378), (5,)],
     lambda x, w, b: x.reshape(2, -1) @ w.T + b),
    ("FullyConnected", {"num_hidden": 5, "flatten": False, "no_bias": True}, [(2, 3, 8)],
     [(5, 8)], lambda x, w: x @ w.T),
    ("BatchNorm", {}, [IMAGE], [(6,)] * 4,
     lambda x, g, b, m, v: onnx("BatchNormalization", [x, np.ones_like(g), b, m, v], epsilon=1e-3)),
    ("BatchNorm", {"fix_gamma": "False", "eps": "1e-05", "use_global_stats": "True"}, [IMAGE],
     [(6,)] * 4, lambda *x: onnx("BatchNormalization", x, epsilon=1e-5)),
    ("BatchNorm", {"fix_gamma": False, "axis": -1}, [ROWS], [(12,)] * 4,
     lambda *x: onnx("BatchNormalization", x, epsilon=1e-3)),
    ("InstanceNorm", {}, [IMAGE], [(6,)] * 2,
     lambda *x: onnx("InstanceNormalization", x, epsilon=1e-3)),
    ("LayerNorm", {}, [IMAGE], [(9,)] * 2, lambda *x: onnx("LayerNormalization", x, epsilon=1e-5)),
    ("LeakyReLU", {"act_type": "prelu"}, [IMAGE], [(6,)],
     lambda x, g: np.where(x > 0, x, x * g[:, None, None])),
    ("LeakyReLU", {"act_type": "prelu"}, [IMAGE], [(1,)], lambda x, g: np.where(x > 0, x, x * g)),
]  # fmt: skip


def pool(op, **attrs):
    return lambda x: onnx(op, [x], kernel_shape=[3, 3], strides=[2, 2], **attrs)


K3 = {"kernel": (3, 3), "stride": (2, 2)}
PAD = {"pads": [1, 1, 1, 1]}
# Operator, attributes, shapes, reference.
IMAGES = [
    ("Pooling", {**K3, "pool_type": "max"}, [IMAGE], pool("MaxPool")),
    ("Pooling", {**K3, "pool_type": "max", "pad": (1, 1)}, [IMAGE], pool("MaxPool", **PAD)),
    ("Pooling_v1", {**K3, "pooling_convention": "full"}, [(1, 3, 6, 8)], pool("MaxPool", ceil_mode=1)),
    ("Pooling", {**K3, "pool_type": "avg", "pad": (1, 1)}, [IMAGE],
     pool("AveragePool", count_include_pad=1, **PAD)),
    ("Pooling", {**K3, "pool_type": "avg", "pad": (1, 1), "count_include_pad": "False"}, [IMAGE],
     pool("AveragePool", **PAD)),
    ("Pooling", {**K3, "pool_type": "avg", "pooling_convention": "full", "count_include_pad": 0},
     [(1, 3, 6, 8)], pool("AveragePool", ceil_mode=1)),
    ("Pooling", {**K3, "pool_type": "sum", "pad": (1, 1)}, [IMAGE],
     lambda x: 9 * pool("AveragePool", count_include_pad=1, **PAD)(x)),
    ("Pooling", {"kernel": 3, "stride": 2, "pooling_convention": "same"}, [(2, 3, 8)],
     lambda x: onnx("MaxPool", [x], kernel_shape=[3], strides=[2], pads=[0, 1])),
    ("Pooling", {"global_pool": True, "pool_type": "avg", "kernel": (99, 99)}, [IMAGE],
     lambda x: x.mean((2, 3), keepdims=True)),
    ("Pooling", {"global_pool": True}, [IMAGE], lambda x: x.max((2, 3), keepdims=True)),
    ("UpSampling", {"scale": 2, "sample_type": "nearest"}, [IMAGE],
     lambda x: x.repeat(2, 2).repeat(2, 3)),
    ("UpSampling", {"scale": 2, "sample_type": "nearest", "num_args": 2}, [IMAGE, (2, 3, 14, 18)],
     lambda a, b: np.concatenate([a.repeat(2, 2).repeat(2, 3), b], 1)),
    ("UpSampling", {"scale": 1, "sample_type": "nearest", "multi_input_mode": "sum"}, [IMAGE] * 3,
     lambda a, b, c: a + b + c),
    ("_contrib_AdaptiveAvgPooling2D", {"output_size": "(2,3)"}, [(1, 3, 8, 6)],
     lambda x: x.reshape(1, 3, 2, 4, 3, 2).mean((3, 5))),
    ("Crop", {"h_w": (3, 4), "offset": (1, 2), "num_args": 1}, [IMAGE], lambda x: x[:, :, 1:4, 2:6]),
    ("Crop", {"center_crop": True, "num_args": 2}, [IMAGE, (2, 1, 3, 5)],
     lambda x, _: x[:, :, 2:5, 2:7]),
    ("LRN", {"nsize": 5}, [IMAGE],
     lambda x: onnx("LRN", [x], size=5, alpha=1e-4, beta=0.75, bias=2.0)),
    ("LRN", {"nsize": 3, "alpha": 0.5, "beta": 0.6, "knorm": 1}, [IMAGE],
     lambda x: onnx("LRN", [x], size=3, alpha=0.5, beta=0.6, bias=1.0)),
    ("L2Normalization", {}, [IMAGE], lambda x: x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True))),
    ("L2Normalization", {"mode": "channel"}, [IMAGE],
     lambda x: x / np.sqrt((x**2).sum(1, keepdims=True))),
    ("L2Normalization", {"mode": "spatial"}, [IMAGE],
     lambda x: x / np.sqrt((x**2).sum((2, 3), keepdims=True))),
]  # fmt: skip

SQUASHED = "depth_to_space", {"block_size": 2}, [(1, 8, 2, 3)]
MOVES = [
    ("Reshape", {"shape": "(0,-1)"}, [IMAGE], lambda x: x.reshape(2, -1)),
    ("Reshape", {"target_shape": "(0,-1)", "keep_highest": True}, [IMAGE], lambda x: x.reshape(2, -1)),
    ("Reshape", {"shape": (-1, 0), "reverse": True}, [(2, 3, 4)], lambda x: x.reshape(6, 4)),
    ("Flatten", {}, [IMAGE], lambda x: x.reshape(2, -1)),
    ("reshape_like", {}, [(2, 6), (3, 4)], lambda x, like: x.reshape(like.shape)),
    ("transpose", {}, [(2, 3, 4)], np.transpose),
    ("transpose", {"axes": "[0, 2, 3, 1]"}, [IMAGE], lambda x: x.transpose(0, 2, 3, 1)),
    ("SwapAxis", {"dim1": 1, "dim2": 3}, [IMAGE], lambda x: x.swapaxes(1, 3)),
    ("expand_dims", {"axis": -1}, [ROWS], lambda x: x[:, :, None]),
    ("squeeze", {}, [(2, 1, 3, 1)], lambda x: x[:, 0, :, 0]),
    ("squeeze", {"axis": "(1,)"}, [(2, 1, 3, 1)], lambda x: x[:, 0]),
    ("slice", {"begin": "(None, 1)", "end": "(None, -1)"}, [IMAGE], lambda x: x[:, 1:-1]),
    ("slice", {"begin": (0, 5, 1), "end": (2, 0, 7), "step": (1, -2, 3)}, [IMAGE],
     lambda x: x[0:2, 5:0:-2, 1:7:3]),
    ("crop", {"begin": (0, 5), "end": (None, None), "step": (None, -1)}, [IMAGE], lambda x: x[:, 5::-1]),
    ("slice_axis", {"axis": -1, "begin": -5, "end": "None"}, [IMAGE], lambda x: x[..., -5:]),
    ("slice_like", {"axes": (1, -1)}, [IMAGE, (1, 2, 3, 4)], lambda x, _: x[:, :2, :, :4]),
    ("Concat", {"num_args": 2}, [IMAGE, (2, 3, 7, 9)], lambda a, b: np.concatenate([a, b], 1)),
    ("concat", {"num_args": 2, "dim": -1}, [ROWS, (4, 2)], lambda a, b: np.concatenate([a, b], 1)),
    ("stack", {"num_args": 2, "axis": 1}, [ROWS, ROWS], lambda a, b: np.stack([a, b], 1)),
    ("Pad", {"mode": "constant", "constant_value": 0.5, "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)},
     [IMAGE], lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (3, 0)], constant_values=0.5)),
    ("pad", {"mode": "edge", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}, [IMAGE],
     lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (3, 0)], "edge")),
    ("Pad", {"mode": "reflect", "pad_width": (0, 0, 0, 0, 1, 2, 3, 0)}, [IMAGE],
     lambda x: np.pad(x, [(0, 0), (0, 0), (1, 2), (3, 0)], "reflect")),
    ("broadcast_to", {"shape": (2, 0, 7, 0)}, [(1, 6, 1, 9)],
     lambda x: np.broadcast_to(x, (2, 6, 7, 9))),
    ("broadcast_axis", {"axis": 2, "size": 7}, [(1, 6, 1, 9)],
     lambda x: np.broadcast_to(x, (1, 6, 7, 9))),
    ("broadcast_like", {}, [(1, 6, 1, 9), IMAGE], lambda x, like: np.broadcast_to(x, like.shape)),
    ("tile", {"reps": (2, 1, 3)}, [ROWS], lambda x: np.tile(x, (2, 1, 3))),
    (*SQUASHED, lambda x: onnx("DepthToSpace", [x], blocksize=2)),
    ("space_to_depth", {"block_size": 2}, [(1, 2, 4, 6)],
     lambda x: onnx("SpaceToDepth", [x], blocksize=2)),
]  # fmt: skip

ELEMENTS = [
    *[(name, {}, [IMAGE, IMAGE], op) for names, op in (
        (("elemwise_add", "_plus", "_Plus", "broadcast_add"), np.add),
        (("elemwise_sub", "_minus", "_Minus", "broadcast_minus"), np.subtract),
        (("elemwise_mul", "_Mul"), np.multiply),
        (("elemwise_div", "_Div"), np.divide),
        (("_maximum", "_Maximum"), np.maximum),
        (("_minimum", "_Minimum"), np.minimum),
    ) for name in names],
    *[(f"broadcast_{name}", {}, [IMAGE, (1, 6, 1, 9)], op) for name, op in (
        ("plus", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide),
        ("maximum", np.maximum), ("minimum", np.minimum),
    )],
    *[(name, {"scalar": "1.5"}, [IMAGE], op) for name, op in (
        ("_plus_scalar", lambda x: x + 1.5), ("_PlusScalar", lambda x: x + 1.5),
        ("_minus_scalar", lambda x: x - 1.5), ("_rminus_scalar", lambda x: 1.5 - x),
        ("_RMinusScalar", lambda x: 1.5 - x), ("_mul_scalar", lambda x: x * 1.5),
        ("_div_scalar", lambda x: x / 1.5), ("_rdiv_scalar", lambda x: 1.5 / x),
        ("_maximum_scalar", lambda x: np.maximum(x, 1.5)),
        ("_MinimumScalar", lambda x: np.minimum(x, 1.5)),
        ("_rpower_scalar", lambda x: 1.5**x),
    )],
    ("_power_scalar", {"scalar": "2"}, [IMAGE], np.square),
    ("add_n", {"num_args": 3}, [IMAGE] * 3, lambda a, b, c: a + b + c),
    ("ElementWiseSum", {"num_args": 1}, [IMAGE], lambda a: a),
    ("clip", {"a_min": "-0.4", "a_max": "0.7"}, [IMAGE], lambda x: x.clip(-0.4, 0.7)),
    ("hard_sigmoid", {}, [IMAGE], lambda x: (0.2 * x + 0.5).clip(0, 1)),
    ("Activation", {"act_type": "relu"}, [IMAGE], lambda x: x.clip(0)),
    ("Activation", {"act_type": "sigmoid"}, [IMAGE], lambda x: 1 / (1 + np.exp(-x))),
    ("Activation", {"act_type": "tanh"}, [IMAGE], np.tanh),
    ("Activation", {"act_type": "softrelu"}, [IMAGE], lambda x: np.log1p(np.exp(x))),
    ("Activation", {"act_type": "softsign"}, [IMAGE], lambda x: x / (1 + np.abs(x))),
    ("LeakyReLU", {}, [IMAGE], lambda x: np.where(x > 0, x, 0.25 * x)),
    ("LeakyReLU", {"act_type": "rrelu", "lower_bound": 0.1, "upper_bound": 0.3}, [IMAGE],
     lambda x: np.where(x > 0, x, 0.2 * x)),
    ("LeakyReLU", {"act_type": "elu", "slope": 0.7}, [IMAGE],
     lambda x: np.where(x > 0, x, 0.7 * np.expm1(x))),
    ("LeakyReLU", {"act_type": "selu"}, [IMAGE], lambda x: onnx("Selu", [x])),
    ("LeakyReLU", {"act_type": "gelu"}, [IMAGE], lambda x: x * (1 + erf(x / 2**0.5)) / 2),
    *[(name, {}, [IMAGE], op) for name, op in (
        ("abs", np.abs), ("ceil", np.ceil), ("cos", np.cos), ("erf", erf), ("exp", np.exp),
        ("floor", np.floor), ("negative", np.negative), ("sign", np.sign), ("sin", np.sin),
        ("square", np.square), ("tanh", np.tanh), ("reciprocal", np.reciprocal),
        ("relu", lambda x: x.clip(0)), ("softsign", lambda x: x / (1 + np.abs(x))),
        ("ones_like", np.ones_like), ("zeros_like", np.zeros_like), ("Dropout", lambda x: x),
    )],
    ("softmax", {}, [IMAGE], lambda x: softmax(x, -1)),
    ("softmax", {"axis": 1, "temperature": 2.5}, [IMAGE], lambda x: softmax(x / 2.5, 1)),
    ("log_softmax", {}, [ROWS], lambda x: np.log(softmax(x, 1))),
    ("softmin", {}, [ROWS], lambda x: softmax(-x, 1)),
    ("SoftmaxOutput", {}, [ROWS], lambda x: softmax(x, 1)),
    ("Softmax", {"multi_output": "True"}, [IMAGE], lambda x: softmax(x, 1)),
    ("SoftmaxOutput", {"preserve_shape": "True"}, [IMAGE], lambda x: softmax(x, -1)),
    ("SoftmaxOutput", {}, [IMAGE], lambda x: softmax(x.reshape(2, -1), 1).reshape(x.shape)),
    ("SoftmaxActivation", {"mode": "channel"}, [IMAGE], lambda x: softmax(x, 1)),
    ("LogisticRegressionOutput", {}, [ROWS], lambda x: 1 / (1 + np.exp(-x))),
    ("mean", {"axis": "(2, 3)"}, [IMAGE], lambda x: x.mean((2, 3))),
    ("sum", {"axis": 1, "exclude": True, "keepdims": True}, [IMAGE],
     lambda x: x.sum((0, 2, 3), keepdims=True)),
    ("max_axis", {"axis": -1}, [IMAGE], lambda x: x.max(-1)),
    ("min", {}, [IMAGE], np.min),
    ("Cast", {"dtype": "int32"}, [ROWS], lambda x: x.astype("int32")),
    ("dot", {"transpose_b": "True"}, [ROWS, (5, 12)], lambda a, b: a @ b.T),
    ("batch_dot", {}, [(2, 3, 4), (2, 4, 5)], np.matmul),
]  # fmt: skip
PLAIN = [*IMAGES, *MOVES, *ELEMENTS]
