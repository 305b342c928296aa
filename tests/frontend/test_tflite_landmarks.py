"""MediaPipe's operators on landmarks against its own formulas, written in NumPy."""

import contextlib

import numpy as np
import pytest
from flatbuffers import flexbuffers

from relay_int8.errors import FrontendError
from tests.frontend.test_tflite_custom import custom
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel

SUBSET = [1, 2, 4, 6, 5]
BOX = {
    "left_rotation_idx": 1, "right_rotation_idx": 4, "target_rotation_radians": 0.25,
    "output_height": 6, "output_width": 5, "scale_x": 2.5, "scale_y": 1.25, "subset_idxs": SUBSET,
}  # fmt: skip


def as_map(options: dict) -> bytes:
    """Return options as MediaPipe has them: vectors with one type for all elements."""
    builder = flexbuffers.Builder()
    with builder.Map():
        for name, value in options.items():
            if isinstance(value, list):
                builder.TypedVectorFromElements(name, value)
            else:
                builder.Add(name, value)
    return bytes(builder.Finish())


def network(options: bytes) -> TfliteModel:
    """Return a model that finds a part of an image by landmarks, and moves landmarks back."""
    net = TfliteModel(1)
    marks, image = net.input("marks", (1, 7, 3)), net.input("image", (1, 9, 8, 3))
    part = as_map({"output_height": 6, "output_width": 5})
    matrix = custom(net, "Landmarks2TransformMatrix", options, (1, 4, 4), marks)
    pixels = custom(net, "TransformTensorBilinear", part, (1, 6, 5, 3), image, matrix)
    moved = custom(net, "TransformLandmarks", b"", (1, 7, 3), marks, matrix)
    net.graph.outputs = [matrix, pixels, moved]
    return net


def wanted_matrix(marks: np.ndarray) -> np.ndarray:
    left, right = marks[BOX["left_rotation_idx"]], marks[BOX["right_rotation_idx"]]
    r = BOX["target_rotation_radians"] - np.arctan2(right[1] - left[1], right[0] - left[0])
    turn = np.array([[np.cos(r), -np.sin(r)], [np.sin(r), np.cos(r)]])
    turned = marks[SUBSET, :2] @ turn.T
    high, low = turned.max(0), turned.min(0)
    matrix, scale, corner = np.eye(4), np.eye(4), np.eye(4)
    matrix[:2, :2], matrix[:2, 3] = turn.T, turn.T @ ((high + low) / 2)
    size = np.array([BOX["output_width"], BOX["output_height"]])
    scale[[0, 1], [0, 1]] = (high - low) * [BOX["scale_x"], BOX["scale_y"]] / size
    corner[:2, 3] = -size / 2
    return matrix @ scale @ corner


def wanted_pixel(image: np.ndarray, x: float, y: float) -> np.ndarray:
    height, width, channels = image.shape
    if not (0 <= x <= width - 1 and 0 <= y <= height - 1):
        return np.zeros(channels)
    padded = np.pad(image, ((0, 1), (0, 1), (0, 0)))
    i, j = int(y), int(x)
    down, right = y - i, x - j
    upper, lower = ((1 - right) * padded[at, j] + right * padded[at, j + 1] for at in (i, i + 1))
    return (1 - down) * upper + down * lower


def test_a_part_is_turned_upright_and_back(tmp_path):
    rng = np.random.default_rng(2)
    marks = rng.uniform(1, 7, (1, 7, 3)).astype("float32")
    image = rng.normal(size=(1, 9, 8, 3)).astype("float32")
    net = network(as_map(BOX))
    matrix, pixels, moved = run_fast(net.imported(tmp_path), marks, image)
    wanted = wanted_matrix(marks[0].astype("float64"))
    np.testing.assert_allclose(matrix[0], wanted, rtol=0, atol=1e-5)
    for i, j in np.ndindex(6, 5):
        x, y = wanted[:2] @ [j + 0.5, i + 0.5, 0, 1] - 0.5
        np.testing.assert_allclose(pixels[0, i, j], wanted_pixel(image[0], x, y), atol=1e-4)
    assert (pixels == 0).any()  # outside of the image
    xy = marks[0, :, :2] @ wanted[:2, :2].T + wanted[:2, 3]
    np.testing.assert_allclose(moved[0, :, :2], xy, rtol=0, atol=1e-4)
    np.testing.assert_array_equal(moved[0, :, 2], marks[0, :, 2])


@pytest.mark.parametrize(
    ("options", "message"),
    [(b"\1\0\0\0", "its options are no map"),
     (as_map({**BOX, "subset_idxs": [1, 9]}), r"its landmarks are \(1, 9\), 1 and 4 of 7"),
     (as_map({**BOX, "output_width": 0}), "its output_width is 0"),
     (as_map({"scale_x": 1.0}), "has no option output_height")],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(FrontendError, match=message):
        network(options).imported(tmp_path)


def test_damaged_options_are_refused(tmp_path):
    options, rng = bytearray(as_map(BOX)), np.random.default_rng(3)
    for _ in range(60):
        damaged = bytearray(options)
        damaged[rng.integers(len(options))] = rng.integers(256)
        with contextlib.suppress(FrontendError):
            network(bytes(damaged)).imported(tmp_path)
