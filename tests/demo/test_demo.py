"""The demo network classifies digits it was not trained on, before and after normalizing."""

import numpy as np
import onnx
import pytest
import tvm

from relay_int8 import demo
from relay_int8.compiler.pipeline import normalize_passes
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, run_onnx, run_relax


@pytest.mark.fast
def test_files_are_small():
    assert demo.MODEL.stat().st_size < 300_000
    assert demo.IMAGES.stat().st_size < 100_000


@pytest.mark.fast
def test_accuracy_and_images():
    digits = demo.load_images()
    assert digits.calibration.shape == (300, 1, 8, 8)
    assert digits.test.dtype == np.float32
    assert 0 <= digits.test.min() < digits.test.max() <= 1
    (logits,) = run_onnx(onnx.load(demo.MODEL), digits.test)
    assert (logits.argmax(1) == digits.labels).mean() >= 0.97


def test_no_image_is_in_both_parts():
    digits = demo.load_images()
    calibration = {image.tobytes() for image in digits.calibration}
    assert not calibration & {image.tobytes() for image in digits.test}


def test_normalized_network_is_the_same():
    digits = demo.load_images()
    mod = tvm.transform.Sequential(normalize_passes())(import_onnx(demo.MODEL, batch=8))
    assert_close(run_relax(mod, digits.test[:8]), run_onnx(onnx.load(demo.MODEL), digits.test[:8]))
