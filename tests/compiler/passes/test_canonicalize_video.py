"""Networks over videos become networks over their frames, with the same numbers."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.compiler.passes.normalize.canonicalize_video import CanonicalizeVideo
from relay_int8.compiler.pipeline import normalize, normalized
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator, results, shape
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
F32 = "float32"
X = RNG.normal(size=(2, 4, 6, 7, 8)).astype(F32)
node = helper.make_node


def weights(*dims: int) -> np.ndarray:
    return RNG.normal(size=dims).astype(F32)


def operators(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> list[str]:
    """Return the operators of a normalized model that ends in y, compared with ONNX Runtime."""
    proto = model(nodes, {"x": X.shape}, {"y": None}, constants)
    mod = normalize()(import_onnx(proto))
    assert [var.name for var in results(mod["main"])] == ["y"]
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    return [operator(value) for _, value in calls(mod["main"])]


@pytest.mark.parametrize(
    ("dims", "at"),
    [
        ((5, 4, 1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((5, 4, 3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
        ((5, 4, 3, 3, 3), {"pads": [0, 1, 0, 2, 1, 1], "strides": [2, 1, 2]}),
        ((5, 4, 2, 3, 4), {"strides": [2, 3, 4]}),
        ((5, 4, 2, 3, 4), {"strides": [4, 3, 4]}),
        ((5, 4, 1, 1, 1), {"strides": [2, 2, 2]}),
        ((4, 4, 2, 2, 2), {"dilations": [3, 1, 2]}),
        ((6, 2, 3, 3, 3), {"group": 2, "pads": [1] * 6}),
        ((4, 1, 2, 3, 3), {"group": 4, "strides": [2, 1, 1]}),
    ],
)
def test_convolutions_of_frames(dims: tuple[int, ...], at: dict[str, list[int]]):
    found = operators(
        [node("Conv", ["x", "w", "b"], ["y"], **at)], w=weights(*dims), b=weights(dims[0])
    )
    assert "nn.conv2d" in found
    assert "nn.conv3d" not in found


def test_patches_are_frames_without_a_slice():
    """The channels of a patch lie as a reshape puts them: nothing is copied for its frames."""
    found = operators(
        [node("Conv", ["x", "w"], ["y"], strides=[2, 3, 4])], w=weights(5, 4, 2, 3, 4)
    )
    assert not {"strided_slice", "concat", "nn.pad"} & set(found)


@pytest.mark.parametrize(
    ("op", "at"),
    [
        ("MaxPool", {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1] * 6}),
        ("MaxPool", {"kernel_shape": [2, 1, 1]}),
        ("MaxPool", {"kernel_shape": [2, 2, 3], "strides": [2, 2, 2], "ceil_mode": 1}),
        ("MaxPool", {"kernel_shape": [3, 1, 2], "dilations": [2, 1, 3]}),
        ("AveragePool", {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
        ("AveragePool", {"kernel_shape": [1, 3, 3], "pads": [0, 1, 1, 0, 1, 1]}),
    ],
)
def test_windows_of_several_frames_are_pooled_within_frames_and_along_them(
    op: str, at: dict[str, list[int]]
):
    found = operators(
        [node("Conv", ["x", "w"], ["c"]), node(op, ["c"], ["y"], **at)], w=weights(4, 4, 1, 1, 1)
    )
    pools = [name for name in found if "pool" in name]
    assert set(pools) == {"nn.max_pool2d" if op == "MaxPool" else "nn.avg_pool2d"}
    depth, *sizes = at["kernel_shape"]
    assert len(pools) == (depth > 1) + (sizes != [1, 1])


def test_means_that_count_the_padding_of_frames_are_declined():
    at = {"kernel_shape": [2, 2, 2], "pads": [1] * 6}
    proto = model([node("AveragePool", ["x"], ["y"], **at)], {"x": X.shape}, {"y": None}, {})
    _, declined = normalized(import_onnx(proto))
    assert any("counts what is around them" in each.reason for each in declined)


@pytest.mark.parametrize(
    ("sizes", "mode", "places"),
    [
        ((12, 14, 16), "nearest", "asymmetric"),
        ((12, 14, 16), "linear", "half_pixel"),
        ((9, 4, 11), "linear", "align_corners"),
        ((3, 7, 8), "linear", "pytorch_half_pixel"),
        ((6, 14, 5), "linear", "asymmetric"),
    ],
)
def test_volumes_are_resized_along_frames_and_within(
    sizes: tuple[int, ...], mode: str, places: str
):
    at = {"mode": mode, "coordinate_transformation_mode": places, "nearest_mode": "floor"}
    found = operators(
        [
            node("Conv", ["x", "w"], ["c"]),
            node("Resize", ["c", "", "", "sizes"], ["r"], **at),
            node("Conv", ["r", "v"], ["y"]),
        ],
        w=weights(5, 4, 1, 1, 1),
        v=weights(3, 5, 1, 1, 1),
        sizes=np.array([2, 5, *sizes]),
    )
    changed = (sizes[0] != X.shape[2]) + (sizes[1:] != X.shape[3:])
    assert found.count("image.resize2d") == changed
    assert found.count("permute_dims") == 2  # the input's and the result's


@pytest.mark.parametrize(
    "between",
    [
        [node("Relu", ["c"], ["d"])],
        [node("Sigmoid", ["c"], ["s"]), node("Mul", ["c", "s"], ["d"])],
        [node("Mul", ["c", "gains"], ["d"])],
        [node("Add", ["c", "x"], ["d"])],
        [node("Add", ["c", "c"], ["d"])],
        [node("BatchNormalization", ["c", "k", "k", "k", "k"], ["d"])],
        [node("MaxPool", ["c"], ["d"], kernel_shape=[1, 2, 2], strides=[1, 2, 2])],
        [node("AveragePool", ["c"], ["d"], kernel_shape=[1, 3, 3], pads=[0, 1, 1, 0, 1, 1])],
        [node("Concat", ["c", "x"], ["j"], axis=1), node("Conv", ["j", "u"], ["d"])],
    ],
)
def test_nothing_is_turned_between_convolutions(between: list[onnx.NodeProto]):
    """What stands between them moves in front of the permutations, which then meet and are gone."""
    constants = {
        "gains": weights(4, 1, 1, 1),
        "k": np.array([1.0, 2.0, 0.5, 1.5], F32),
        "u": weights(4, 8, 1, 1, 1),
        "w": weights(4, 4, 1, 1, 1),
    }
    nodes = [node("Conv", ["x", "w"], ["c"]), *between, node("Conv", ["d", "w"], ["y"])]
    found = operators(nodes, **constants)
    assert found.count("permute_dims") == 2
    assert found.count("nn.conv2d") >= 2


@pytest.mark.parametrize(
    "between",
    [
        node("Mul", ["c", "times"], ["d"]),
        node("MaxPool", ["c"], ["d"], kernel_shape=[2, 1, 1]),
        node("Concat", ["c", "x"], ["d"], axis=2),
    ],
)
def test_what_meets_frames_differently_sees_the_video(between: onnx.NodeProto):
    nodes = [node("Conv", ["x", "w"], ["c"]), between, node("Conv", ["d", "w"], ["y"])]
    found = operators(nodes, w=weights(4, 4, 1, 1, 1), times=weights(6, 1, 1))
    assert found.count("permute_dims") == 4


def test_a_video_is_integers_between_its_convolutions():
    nodes = [
        node("Conv", ["x", "w"], ["c"], pads=[1] * 6),
        node("Relu", ["c"], ["d"]),
        node("Conv", ["d", "v"], ["y"]),
    ]
    constants = {"w": weights(4, 4, 3, 3, 3), "v": weights(3, 4, 2, 1, 1)}
    mod, _ = normalized(import_onnx(model(nodes, {"x": X.shape}, {"y": None}, constants)))
    layers = annotate(mod, QuantConfig()).layers
    assert [layer.reason for layer in layers if layer.kind == "conv2d"] == [None, None]


def test_weights_that_are_computed_are_declined():
    nodes = [node("Conv", ["x", "x"], ["y"])]
    x = X[:, :, :2, :3, :4]
    proto = model(nodes, {"x": x.shape}, {"y": None}, {})
    mod = import_onnx(proto)
    after = CanonicalizeVideo()(mod)
    assert [operator(value) for _, value in calls(after["main"])] == ["nn.conv3d"]
    assert shape(results(after["main"])[0]) == (2, 2, 1, 1, 1)
