"""ThreadIslands: every kernel of a float island has threads of a GPU, whatever TVM's rules make of it."""

import math

import numpy as np
import pytest
from onnx import helper
from tvm import tirx

from relay_int8.compiler.passes.lower.thread_islands import ThreadIslands
from relay_int8.compiler.pipeline import island_passes, normalize
from relay_int8.frontend.onnx import import_onnx
from tests.cuda.emulator import launch_size
from tests.cuda.run_template import SM_80
from tests.onnx_models import model

pytestmark = pytest.mark.fast
BOXES = np.array([[0, 0, 7, 7], [1, 2, 6, 5]], "float32")


def regions():
    """Return pooled regions of an image, whose windows overlap: TVM's rule for sums fails."""
    node = helper.make_node(
        "RoiAlign", ["x", "boxes", "of"], ["y"], output_height=3, output_width=3
    )
    constants = {"boxes": BOXES, "of": np.zeros(2, np.int64)}
    return model([node], {"x": (1, 4, 8, 8)}, {"y": None}, constants, opset=16)


def total():
    """Return sums of rows, for which TVM has a rule."""
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"])
    return model([node], {"x": (4, 256)}, {"y": None}, {"axes": np.array([1])}, opset=16)


@pytest.mark.parametrize("make", [regions, total])
def test_islands_have_threads(make):
    mod = normalize()(import_onnx(make()))
    with SM_80:
        for each in (*island_passes(), ThreadIslands()):
            mod = each(mod)
    kernels = [func for _, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)]
    assert kernels
    for func in kernels:
        assert math.prod(launch_size(func)[3:]) >= 32
