"""ONNX's pooling: every way to pad and to round, compared with ONNX Runtime."""

import numpy as np
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 3, 17, 14)).astype("float32")
node = helper.make_node


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
def test_padded_by_a_mode(op: str, mode: str):
    """As many windows as strides fit; the odd pixel last, or first where the mode says lower."""
    windows = [((3, 2), (2, 2)), ((2, 4), (2, 3)), ((3, 5), (1, 3)), ((2, 2), (2, 1))]
    nodes = [
        node(op, ["x"], [f"y{i}"], kernel_shape=kernel, strides=strides, auto_pad=mode)
        for i, (kernel, strides) in enumerate(windows)
    ]
    proto = model(nodes, {"x": X.shape}, dict.fromkeys(f"y{i}" for i in range(len(windows))))
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


@pytest.mark.parametrize("counted", [0, 1])
def test_last_windows_that_hang_over(counted: int):
    """Sizes are rounded up; a window that would begin behind the image is none."""
    windows = [
        (2, 3, (1, 1, 1, 1)),
        (4, 5, (2, 2, 2, 2)),
        (3, 3, (0, 0, 2, 2)),
        (2, 2, (0, 0, 1, 1)),
    ]
    nodes, outputs = [], {}
    for i, (kernel, stride, pads) in enumerate(windows):
        at = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads, "ceil_mode": 1}
        nodes.append(node("AveragePool", ["x"], [f"a{i}"], count_include_pad=counted, **at))
        nodes.append(node("MaxPool", ["x"], [f"m{i}"], dilations=[1 + i % 2] * 2, **at))
        outputs |= {f"a{i}": None, f"m{i}": None}
    proto = model(nodes, {"x": X.shape}, outputs, opset=19)
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


INDEXED = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "storage_order": 1},
    {"kernel_shape": [1, 1], "strides": [1, 1]},
]


def test_indices_of_maxima():
    """They count all elements of the tensor, of equal ones the first; columns first on demand."""
    x = np.round(RNG.normal(size=(2, 3, 9, 8)) * 2).astype("float32")
    nodes, outputs = [], {}
    for i, attributes in enumerate(INDEXED):
        nodes += [
            node("MaxPool", ["x"], [f"y{i}", f"int{i}"], **attributes),
            node("Cast", [f"int{i}"], [f"i{i}"], to=1),
        ]
        outputs |= {f"y{i}": None, f"i{i}": None}
    nodes.append(node("Add", ["i3", "y3"], ["last"]))  # of no window but one's own: constant
    outputs = {name: None for name in [*outputs, "last"] if name != "i3"}
    proto = model(nodes, {"x": x.shape}, outputs)
    for actual, expected in zip(run_relax(import_onnx(proto), x), run_onnx(proto, x), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_indices_of_maxima_in_a_sequence_and_a_video():
    for x in (X[0], X[:, :, None]):
        kernel = [1] * (x.ndim - 3) + [3]
        nodes = [
            node("MaxPool", ["x"], ["y", "int"], kernel_shape=kernel, strides=kernel),
            node("Cast", ["int"], ["i"], to=1),
        ]
        proto = model(nodes, {"x": x.shape}, {"y": None, "i": None})
        assert_close(run_relax(import_onnx(proto), x), run_onnx(proto, x))


@pytest.mark.parametrize("x", [X[0], X[..., None, None]])
def test_a_kernel_of_other_axes(x: np.ndarray):
    proto = model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], {"x": x.shape}, {"y": None})
    with pytest.raises(UnsupportedOpError, match=r"its kernel \[2, 2\] does not fit"):
        import_onnx(proto)
