"""torchvision's roi_align; ``frontend.regions`` has what it becomes."""

from __future__ import annotations

from relay_int8.frontend.regions import roi_align
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


def _roi_align(step: TorchStep) -> Result:
    """Average interpolated samples of each part of each box (image, x1, y1, x2, y2)."""
    x, boxes = step.tensor("input"), step.tensor("rois")
    if len(shape(x)) != 4 or len(shape(boxes)) != 2 or shape(boxes)[1] != 5:
        raise ValueError(
            f"its inputs are {list(shape(x))} and {list(shape(boxes))}, not images and [boxes, 5]"
        )
    size = [step.integer(f"pooled_{axis}") for axis in ("height", "width")]
    scale, samples = step.real("spatial_scale"), step.integer("sampling_ratio")
    if min(size) < 1 or max(*size, samples) >= 2**31 or not scale > 0:
        raise ValueError(
            f"its pooled size is {size}, its spatial_scale {scale}, its sampling_ratio {samples}"
        )
    aligned = step.flag("aligned", False)
    return roi_align(step.emit, x, boxes, size, scale, max(samples, 0), aligned=aligned)


REGIONS: dict[str, Converter] = {"torchvision.roi_align": _roi_align}
