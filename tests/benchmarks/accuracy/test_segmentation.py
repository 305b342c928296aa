"""Mean intersection over union, counted by hand."""

import io

import numpy as np
import pytest
from PIL import Image

from benchmarks.accuracy.segmentation import mean_iou, read_labels

pytestmark = pytest.mark.fast
LABELS = np.array([[[0, 0, 1, 1], [1, 1, 2, 2]]], "uint8")  # 2 is no class


def test_mean_iou():
    chosen = np.array([[[0, 1, 1, 1], [1, 0, 0, 1]]])
    # class 0: 1 of 3 pixels that either has; class 1: 3 of 5; the last two pixels do not count
    assert mean_iou(chosen, LABELS, 2) == pytest.approx((1 / 3 + 3 / 5) / 2)
    assert mean_iou(LABELS, LABELS, 2) == 1
    assert mean_iou(LABELS, LABELS, 3) == 1
    assert mean_iou(chosen, np.zeros_like(LABELS), 2) == 3 / 8  # class 1 is in no label


def test_read_labels(tmp_path):
    pngs = []
    for labels in (LABELS[0], LABELS[0][::-1]):
        Image.fromarray(labels).save(file := io.BytesIO(), format="PNG")
        pngs.append(np.frombuffer(file.getvalue(), np.uint8))
    offsets = np.cumsum([0, *map(len, pngs)])
    np.savez(
        tmp_path / "images.npz",
        label_png=np.concatenate(pngs),
        label_offset=offsets,
        eval_idx=np.array([1]),
    )
    found = read_labels(tmp_path / "images.npz", "eval")
    np.testing.assert_array_equal(found, LABELS[:, ::-1])
