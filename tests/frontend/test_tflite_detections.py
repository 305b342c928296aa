"""The ends of detectors of TensorFlow: equal to TFLite's own."""

import numpy as np
import pytest

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.quantization.adopt import adopt
from tests.compiled import UNOPTIMIZED, run_executable
from tests.detection_networks import tflite_ssd
from tests.frontend.test_tflite_custom import customs
from tests.frontend.test_tflite_landmarks import as_map
from tests.mxnet_models import run_lowered
from tests.tflite_models import TfliteModel, run_interpreter

BOXES, CLASSES = 24, 5
OPTIONS = {
    "max_detections": 7, "max_classes_per_detection": 1, "detections_per_class": 100,
    "use_regular_nms": False, "nms_score_threshold": 0.25, "nms_iou_threshold": 0.5,
    "num_classes": CLASSES, "y_scale": 10.0, "x_scale": 8.0, "h_scale": 5.0, "w_scale": 4.0,
}  # fmt: skip


def detector(*, background: int = 1, boxes: int = BOXES, **options) -> TfliteModel:
    """Return a model of the operator alone; ``background`` says how many scores are of none."""
    net = TfliteModel(1)
    given = OPTIONS | options
    rng = np.random.default_rng(3)
    anchors = rng.uniform(0.2, 0.8, (boxes, 4)).astype("float32")
    encodings = net.input("boxes", (1, boxes, 4))
    scores = net.input("scores", (1, boxes, given["num_classes"] + background))
    rows = given["max_detections"] * given["max_classes_per_detection"]
    net.options = given
    net.graph.outputs = customs(
        net, "TFLite_Detection_PostProcess", as_map({k: v for k, v in given.items() if v is not None}),
        [(1, rows, 4), (1, rows), (1, rows), (1,)], encodings, scores, net.constant(anchors, "float32"),
    )  # fmt: skip
    return net


def arrays(net: TfliteModel) -> list[np.ndarray]:
    """Return encodings, and scores of which no two are equal."""
    rng = np.random.default_rng(5)
    shapes = [tuple(net.graph.tensors[index].shape) for index in net.graph.inputs]
    scores = rng.permutation(int(np.prod(shapes[1]))).reshape(shapes[1])
    scores = (scores / scores.size).astype("float32")
    return [rng.normal(0, 2, shapes[0]).astype("float32"), scores]


def assert_equals_tflite(net: TfliteModel, tmp_path, given: list[np.ndarray]) -> list[np.ndarray]:
    """Compare what TFLite writes: it leaves rows out that none of the detections needs."""
    found = run_lowered(net.imported(tmp_path), *given)
    assert_detections(net, found, given)
    return found


def assert_detections(net: TfliteModel, found: list[np.ndarray], given: list[np.ndarray]) -> None:
    wanted = run_interpreter(net, given)
    assert found[3].tolist() == wanted[3].tolist()
    options = net.options
    of_box = 1 if options["use_regular_nms"] else options["max_classes_per_detection"]
    rows = int(wanted[3][0]) * of_box
    np.testing.assert_allclose(found[0][:, :rows], wanted[0][:, :rows], rtol=1e-5, atol=1e-6)
    for array, expected in zip(found[1:3], wanted[1:3], strict=True):
        np.testing.assert_array_equal(array[:, :rows], expected[:, :rows])
        assert array.shape == expected.shape
    assert not any(array[:, rows:].any() for array in found[:3])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"background": 0},
        {"max_classes_per_detection": 3},
        {"use_regular_nms": True},
        {"use_regular_nms": True, "detections_per_class": 1},
        {"use_regular_nms": True, "max_classes_per_detection": 2, "nms_iou_threshold": 0.2},
        {"nms_score_threshold": 0.9},
        {"use_regular_nms": True, "nms_score_threshold": 0.97},
        {"nms_score_threshold": float("-inf"), "detections_per_class": None},
    ],
    ids=lambda options: "-".join(options) or "fast",
)
def test_detections(tmp_path, options):
    net = detector(**options)
    found = assert_equals_tflite(net, tmp_path, arrays(net))
    assert found[3][0] > 0


def test_equal_scores_none_and_more_than_there_are(tmp_path):
    net = detector(max_detections=40, nms_iou_threshold=0.1)
    encodings, scores = arrays(net)
    built = compile_module(normalize()(net.imported(tmp_path)), UNOPTIMIZED).executable
    one_place = encodings * 0 + np.float32([0, 0, 30, 30])
    without_area = encodings * np.float32([1, 1, 0, 0]) - np.float32([0, 0, 2000, 2000])
    for given, count in (
        ([encodings, np.round(scores * 8) / 8], 3),
        ([encodings, scores * 0], 0),
        ([one_place, scores], 1),
        ([without_area, scores], BOXES),
    ):
        found = run_executable(built, given)
        assert_detections(net, found, given)
        assert found[3][0] == count


@pytest.mark.parametrize("regular", [False, True])
def test_files_in_integers_give_the_detections_of_tflite(tmp_path, regular):
    net = tflite_ssd(regular=regular, in_integers=True)
    built = compile_module(adopt(net.imported(tmp_path)).mod, UNOPTIMIZED).executable
    for seed in range(3):  # bytes have equal scores
        given = net.inputs(seed)
        found, wanted = run_executable(built, given), run_interpreter(net, given, "xnnpack")
        np.testing.assert_allclose(found[0], wanted[0], rtol=0, atol=1e-6)
        for array, expected in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(array, expected)


def test_more_classes_than_there_are(tmp_path):
    net = detector(num_classes=2, max_classes_per_detection=3)
    given = arrays(net)
    found, wanted = run_lowered(net.imported(tmp_path), *given), run_interpreter(net, given)
    count = int(wanted[3][0])
    for array, expected in zip(found[1:3], wanted[1:3], strict=True):
        rows, written = array.reshape(-1, 3), expected.reshape(-1, 3)
        np.testing.assert_array_equal(rows[:count, :2], written[:count, :2])
        assert count and not rows[:, 2].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_detections": 0}, "its max_detections is 0, not 1 or more"),
        ({"num_classes": 9, "background": -2}, "its predictions are .* of 9 classes"),
        ({"y_scale": 0.0}, "its y_scale is 0"),
        ({"nms_iou_threshold": 0.0}, "its nms_iou_threshold 0"),
        ({"y_scale": None}, "has no option y_scale"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path, options, message):
    with pytest.raises(FrontendError, match=message):
        detector(**options).imported(tmp_path)


@pytest.mark.parametrize("version", [4, 5])
def test_selected_boxes(tmp_path, version):
    net = TfliteModel(2)
    boxes, scores = net.input("boxes", (12, 4)), net.input("scores", (12,))
    settings = [net.constant(7), *(net.constant(x, "float32") for x in (0.5, 0.25))]
    if version == 5:
        settings.append(net.constant(0, "float32"))
    kind = f"NON_MAX_SUPPRESSION_V{version}"
    selected = net.op(
        kind, boxes, scores, *settings, results=version - 2, options=f"NonMaxSuppressionV{version}Options"
    )  # fmt: skip
    types = {0: 2, version - 3: 2}
    for place, index in enumerate(selected):
        net.graph.tensors[index].type = types.get(place, 0)
    net.graph.outputs = selected
    rng = np.random.default_rng(2)
    low = rng.integers(0, 3, (12, 2))
    corners = np.concatenate([low, low + rng.integers(1, 3, (12, 2))], 1)  # overlaps of just 0.5
    given = [corners.astype("float32"), (rng.permutation(12) / 12).astype("float32")]
    found = run_lowered(net.imported(tmp_path), *given)
    for array, wanted in zip(found, run_interpreter(net, given), strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)
    with pytest.raises(UnsupportedOpError, match="its max_output_size is computed"):
        computed = net.input("count", (), "int32")
        net.graph.operators[0].inputs[2] = computed
        net.imported(tmp_path)
