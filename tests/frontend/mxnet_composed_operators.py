"""MXNet's operators that are composed of others, each beside NumPy's or ONNX Runtime's words.

Operator, attributes, shapes of data (an array is the data), reference of all of them.
"""

import numpy as np

from tests.frontend.mxnet_operators import ROWS, onnx
from tests.frontend.mxnet_sequence_operators import LENGTHS

RNG = np.random.default_rng(2)
SHARES = RNG.uniform(-0.9, 0.9, ROWS).astype("float32")
ABOVE = RNG.uniform(1.1, 9, ROWS).astype("float32")
HALVES = np.array([[-2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.4]], "float32")
INFINITE = np.array([[np.inf, 1.0, -np.inf]], "float32")
GAPS = np.where(SHARES > 0.5, np.nan, SHARES).astype("float32")
SQUARES = RNG.normal(size=(3, 4, 4)).astype("float32")
THETA = RNG.normal(0, 0.6, (2, 6)).astype("float32")
PLACES = RNG.uniform(-1.2, 1.2, (2, 2, 5, 6)).astype("float32")
IMAGE = RNG.normal(size=(2, 3, 7, 8)).astype("float32")


def sampled(x, grid):
    return onnx(
        "GridSample", [x, np.ascontiguousarray(grid.transpose(0, 2, 3, 1))], align_corners=1
    )


def affine(theta, rows, columns):
    x, y = np.meshgrid(np.linspace(-1, 1, columns), np.linspace(-1, 1, rows))
    base = np.stack([x, y, np.ones_like(x)]).reshape(3, -1)
    return (theta.reshape(-1, 2, 3) @ base).reshape(-1, 2, rows, columns).astype("float32")


def warped(flow):
    rows, columns = flow.shape[2:]
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    sizes = np.array([columns - 1, rows - 1]).reshape(1, 2, 1, 1) / 2
    return (flow + np.stack([x, y])) / sizes - 1


def last_steps(x, lengths):
    return np.stack([x[int(n) - 1, i] for i, n in enumerate(lengths)])


def reversed_steps(x, lengths):
    y = x.copy()
    for i, n in enumerate(lengths.astype(int)):
        y[:n, i] = x[:n, i][::-1]
    return y


def decoded(x, anchors):
    """Boxes of anchors as corners, with spreads of 0.1 and 0.2."""
    size = anchors[..., 2:] - anchors[..., :2]
    middle = (anchors[..., :2] + anchors[..., 2:]) / 2 + x[..., :2] * np.float32(0.1) * size
    half = np.exp(np.minimum(x[..., 2:] * 0.2, 0.15)) * size / 2
    return np.concatenate([middle - half, middle + half], -1)


COMPOSED = [
    *[(name, {}, [ROWS], op) for name, op in (
        ("arcsinh", np.arcsinh), ("arctan", np.arctan), ("cosh", np.cosh), ("sinh", np.sinh),
        ("cbrt", np.cbrt), ("degrees", np.degrees), ("radians", np.radians), ("expm1", np.expm1),
        ("fix", np.fix), ("trunc", np.trunc),
    )],
    *[(name, {}, [SHARES], op) for name, op in (
        ("arccos", np.arccos), ("arcsin", np.arcsin), ("arctanh", np.arctanh), ("tan", np.tan),
        ("log1p", np.log1p),
    )],
    *[(name, {}, [ABOVE], op) for name, op in (
        ("arccosh", np.arccosh), ("log2", np.log2), ("log10", np.log10),
    )],
    ("_npi_log1p", {}, [ABOVE], np.log1p),
    ("round", {}, [HALVES], lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
    ("rint", {}, [HALVES], np.rint),
    ("_hypot", {}, [ROWS, ROWS], np.hypot),
    ("broadcast_hypot", {}, [ROWS, (1, 12)], np.hypot),
    ("_contrib_isinf", {}, [INFINITE], np.isinf),
    ("smooth_l1", {"scalar": 2}, [ROWS],
     lambda x: np.where(np.abs(x) < 0.25, 2 * x * x, np.abs(x) - 0.125)),
    ("_contrib_isnan", {}, [GAPS], lambda x: np.isnan(x).astype("float32")),
    ("nansum", {"axis": 1}, [GAPS], lambda x: np.nansum(x, 1)),
    ("nanprod", {"axis": 0}, [GAPS], lambda x: np.nanprod(x, 0)),
    ("prod", {"axis": 1, "keepdims": True}, [ROWS], lambda x: x.prod(1, keepdims=True)),
    ("norm", {}, [ROWS], np.linalg.norm),
    ("norm", {"ord": 1, "axis": -1}, [ROWS], lambda x: np.abs(x).sum(-1)),
    ("norm", {"axis": (1,), "keepdims": True}, [ROWS],
     lambda x: np.linalg.norm(x, axis=1, keepdims=True)),
    ("sort", {"axis": 0, "is_ascend": False}, [ROWS], lambda x: -np.sort(-x, 0)),
    ("argsort", {}, [ROWS], lambda x: np.argsort(x, -1).astype("float32")),
    ("SequenceLast", {}, [(4, 2, 3)], lambda x: x[-1]),
    ("SequenceLast", {"use_sequence_length": True}, [(4, 2, 3), LENGTHS], last_steps),
    ("SequenceReverse", {}, [(4, 2, 3)], lambda x: x[::-1]),
    ("SequenceReverse", {"use_sequence_length": True}, [(4, 2, 3), LENGTHS], reversed_steps),
    ("GridGenerator", {"transform_type": "affine", "target_shape": (5, 6)}, [THETA],
     lambda theta: affine(theta, 5, 6)),
    ("GridGenerator", {"transform_type": "warp"}, [PLACES], warped),
    ("BilinearSampler", {}, [IMAGE, PLACES], sampled),
    ("SpatialTransformer",
     {"transform_type": "affine", "sampler_type": "bilinear", "target_shape": (4, 6)},
     [IMAGE, THETA], lambda x, theta: sampled(x, affine(theta, 4, 6))),
    ("_contrib_box_decode",
     {"format": "corner", "std0": 0.1, "std1": 0.1, "std2": 0.2, "std3": 0.2, "clip": 0.15},
     [(2, 5, 4), np.sort(RNG.uniform(0, 9, (1, 5, 4)).astype("float32"), -1)], decoded),
]  # fmt: skip
LINEAR = [
    ("linalg_gemm2", {"transpose_b": True, "alpha": 0.5}, [SQUARES, SQUARES],
     lambda a, b: 0.5 * a @ b.transpose(0, 2, 1)),
    ("linalg_gemm", {"transpose_a": True, "beta": 2}, [SQUARES, SQUARES, SQUARES],
     lambda a, b, c: a.transpose(0, 2, 1) @ b + 2 * c),
    ("linalg_syrk", {"transpose": True}, [SQUARES], lambda a: a.transpose(0, 2, 1) @ a),
    ("linalg_inverse", {}, [SQUARES], np.linalg.inv),
    ("linalg_det", {}, [SQUARES], np.linalg.det),
]  # fmt: skip
COMPOSED += [row for name, *rest in LINEAR for row in [(name, *rest), (f"_{name}", *rest)]]
