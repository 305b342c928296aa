"""MXNet's suppressions of boxes, against its documentation written in NumPy; ties go by position."""

import numpy as np
import pytest

from relay_int8.errors import FrontendError
from tests.mxnet_models import MxnetModel, run_lowered


def computed(tmp_path, op: str, *inputs: np.ndarray, **attrs: object) -> np.ndarray:
    net = MxnetModel()
    data = [net.variable(f"x{i}") for i in range(len(inputs))]
    y = net.op(op, "y", *data, **attrs)
    shapes = {f"x{i}": x.shape for i, x in enumerate(inputs)}
    (found,) = run_lowered(net.imported(tmp_path, y, **shapes), *inputs)
    return found


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    """Return intersection over union; coordinates are eighths, so that it is exact."""
    sides = [max(min(a[i + 2], b[i + 2]) - max(a[i], b[i]), 0) for i in (0, 1)]
    shared = sides[0] * sides[1]
    union = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)) - shared
    return shared / union if union > 0 else 0.0


def as_corners(box: np.ndarray) -> np.ndarray:
    return np.concatenate([box[:2] - box[2:] / 2, box[:2] + box[2:] / 2])


def as_centre(box: np.ndarray) -> np.ndarray:
    return np.concatenate([(box[:2] + box[2:]) / 2, box[2:] - box[:2]])


def kept_rows(rows: np.ndarray, attrs: dict) -> np.ndarray:
    """Return what ``box_nms`` makes of one image: class, score, box in each row."""
    by_class = attrs.get("id_index", -1) == 0
    valid = rows[:, 1] > attrs.get("valid_thresh", 0)
    if by_class and attrs.get("background_id", -1) >= 0:
        valid &= rows[:, 0] != attrs["background_id"]
    order = [i for i in np.argsort(-rows[:, 1], kind="stable") if valid[i]]
    top = attrs.get("topk", -1)
    given = attrs.get("in_format", "corner")
    corners = [as_corners(row[2:]) if given == "center" else row[2:] for row in rows]
    kept: list[int] = []
    for i in order if top < 0 else order[:top]:
        rivals = [
            j
            for j in kept
            if not by_class or attrs.get("force_suppress") or rows[j, 0] == rows[i, 0]
        ]
        if all(overlap(corners[i], corners[j]) <= attrs["overlap_thresh"] for j in rivals):
            kept.append(i)
    found = np.full_like(rows, -1)
    for place, i in enumerate(kept):
        found[place] = rows[i]
        wanted = attrs.get("out_format", "corner")
        if wanted != given and rows[i, 2] >= 0:
            found[place, 2:] = (as_centre if wanted == "center" else as_corners)(rows[i, 2:])
    return found


def detections(*batch: int, count: int, form: str = "corner") -> np.ndarray:
    """Return rows of a class, a score of a few, and a box on a coarse grid, some without area."""
    rng = np.random.default_rng(count)
    low, size = rng.integers(-1, 5, (*batch, count, 2)), rng.integers(0, 5, (*batch, count, 2))
    boxes = [low + size / 2, size] if form == "center" else [low, low + size]
    columns = [rng.integers(0, 3, (*batch, count, 1)), rng.integers(-2, 9, (*batch, count, 1))]
    return np.concatenate([*columns, *(part / 8 for part in boxes)], -1).astype("float32") + 0


@pytest.mark.parametrize(
    ("batch", "attrs"),
    [
        ((1,), {"overlap_thresh": 0.5, "valid_thresh": 3}),
        ((2,), {"overlap_thresh": 0.25, "valid_thresh": 1, "id_index": 0, "topk": 9}),
        ((2,), {"overlap_thresh": 0.5, "id_index": 0, "background_id": 1, "out_format": "center"}),
        ((1,), {"overlap_thresh": 0.5, "id_index": 0, "force_suppress": True, "topk": 400}),
        ((2, 2), {"overlap_thresh": 0.3, "in_format": "center", "topk": 5}),
        ((), {"overlap_thresh": 0.3, "in_format": "center", "out_format": "center"}),
        ((1,), {"overlap_thresh": 0.5, "valid_thresh": 9}),
    ],
)
def test_box_nms(tmp_path, batch, attrs):
    rows = detections(*batch, count=17, form=attrs.get("in_format", "corner"))
    found = computed(tmp_path, "_contrib_box_nms", rows, **attrs)
    expected = [kept_rows(image, attrs) for image in rows.reshape(-1, 17, 6)]
    np.testing.assert_array_equal(found, np.reshape(expected, rows.shape))
    assert (found[..., 0] >= 0).any() == (attrs.get("valid_thresh") != 9)


def test_box_nms_of_no_box_at_all_changes_nothing(tmp_path):
    rows = detections(1, count=3)
    np.testing.assert_array_equal(computed(tmp_path, "_contrib_box_nms", rows, topk=0), rows)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"coord_start": 3}, "its rows of 6 have boxes from 3 on"),
        ({"score_index": 4}, "its rows of 6 have boxes from 2 on"),
        ({"in_format": "polar"}, "its in_format is 'polar', not corner or center"),
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, attrs, message):
    with pytest.raises(FrontendError, match=message):
        computed(tmp_path, "_contrib_box_nms", detections(1, count=3), **attrs)


def multibox(scores: np.ndarray, moves: np.ndarray, anchors: np.ndarray, attrs: dict) -> np.ndarray:
    """Return what ``MultiBoxDetection`` makes of one image, rows of equal scores by position."""
    best, label = scores[1:].max(0), scores[1:].argmax(0)
    middle, size = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2:] - anchors[:, :2]
    steps = moves.reshape(-1, 4) * np.float32([0.1, 0.1, 0.2, 0.2])
    middle, half = steps[:, :2] * size + middle, np.exp(steps[:, 2:]) * size / 2
    boxes = np.concatenate([middle - half, middle + half], 1)
    boxes = boxes.clip(0, 1) if attrs.get("clip", True) else boxes
    valid = np.flatnonzero(best >= attrs.get("threshold", 0.01))
    rows = np.concatenate([label[:, None], best[:, None], boxes], 1)[valid]
    threshold = attrs.get("nms_threshold", 0.5)
    if 0 < threshold <= 1:
        rows = rows[np.argsort(-rows[:, 1], kind="stable")]
        top = attrs.get("nms_topk", -1)
        rows[top if top > 0 else len(rows) :, 0] = -1
        for i, row in enumerate(rows):
            for other in rows[i + 1 :] if row[0] >= 0 else ():
                alike = attrs.get("force_suppress") or row[0] == other[0]
                if other[0] >= 0 and alike and overlap(row[2:], other[2:]) >= threshold:
                    other[0] = -1
    return np.concatenate([rows, np.full((len(label) - len(rows), 6), -1)])


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"clip": False, "threshold": 0.5, "nms_threshold": 0.3},
        {"force_suppress": True, "nms_topk": 6},
        {"nms_threshold": -1, "threshold": 0.6},
        {"threshold": 2},
    ],
    ids=lambda attrs: "-".join(attrs) or "default",
)
def test_multibox_detection(tmp_path, attrs):
    rng = np.random.default_rng(4)
    scores = (rng.integers(0, 41, (2, 4, 23)) / 40).astype("float32")
    moves = np.zeros(
        (2, 92), "float32"
    )  # with moves an overlap might be rounded across a threshold
    moves[1, ::5] = rng.normal(0, 2, 19)
    anchors = detections(1, count=23)[..., 2:]
    op = "_contrib_MultiBoxDetection"
    found = computed(tmp_path, op, scores, moves, anchors, **attrs)
    expected = [multibox(*image, anchors[0], attrs) for image in zip(scores, moves, strict=True)]
    np.testing.assert_array_equal(found[..., 0], np.array(expected)[..., 0])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert (found[..., 0] >= 0).any() == (attrs.get("threshold") != 2)
