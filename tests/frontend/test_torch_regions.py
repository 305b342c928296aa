"""torchvision's roi_align: equal to ONNX Runtime's RoiAlign."""

import numpy as np
import pytest
from onnx import helper
from tvm import relax

from relay_int8.frontend.torch.converters import CONVERTERS
from relay_int8.frontend.torch.step import TorchStep
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast

X = np.random.default_rng(0).normal(size=(2, 3, 12, 16)).astype("float32")
BOXES = np.array(
    [[1, 2.5, 3, 20, 9.25], [0, 0, 0, 31, 23], [1, 7, 7, 7.5, 15], [0, -3, 2, 5, 30]], "float32"
)
GIVEN = {"spatial_scale": 0.5, "pooled_height": 3, "pooled_width": 4}


def converted(boxes=(4, 5), **given):
    """Return a program of one ``torchvision.roi_align`` of X and boxes."""
    bb = relax.BlockBuilder()
    x, rois = (
        relax.Var(name, relax.TensorType(dims, "float32"))
        for name, dims in (("x", X.shape), ("rois", boxes))
    )
    with bb.function("main", [x, rois]):
        with bb.dataflow():
            step = TorchStep(
                arguments={"input": x, "rois": rois, **GIVEN, **given},
                emit=lambda _, value: bb.emit(value),
                operator="roi_align",
            )
            y = bb.emit_output(CONVERTERS["torchvision.roi_align"](step))
        bb.emit_func_output(y)
    return bb.get()


@pytest.mark.parametrize("samples", [2, -1])
@pytest.mark.parametrize("aligned", [False, True])
def test_boxes_are_averaged(aligned, samples):
    node = helper.make_node(
        "RoiAlign", ["x", "boxes", "images"], ["y"], output_height=3, output_width=4,
        sampling_ratio=max(samples, 0), spatial_scale=0.5,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip
    weights = {"images": BOXES[:, 0].astype("int64")}
    proto = model([node], {"x": X.shape, "boxes": (4, 4)}, {"y": None}, weights)
    mod = converted(aligned=aligned, sampling_ratio=samples)
    assert_close(run_relax(mod, X, BOXES), run_onnx(proto, X, BOXES[:, 1:]))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"boxes": (4, 4)}, r"its inputs are \[2, 3, 12, 16\] and \[4, 4\], not"),
        ({"pooled_width": 0}, r"its pooled size is \[3, 0\]"),
        ({"spatial_scale": float("nan")}, "its spatial_scale nan"),
    ],
)
def test_what_is_refused(given, reason):
    with pytest.raises(ValueError, match=reason):
        converted(sampling_ratio=2, **given)
