"""MXNet's deformable convolutions; ``frontend.deformable`` has what they become."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.deformable import deformable_conv2d
from relay_int8.frontend.mxnet.layers import expect_shape, window, with_bias
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape


def deformable_convolution(step: MxnetStep) -> relax.Expr:
    """Sample by offsets; a position outside the image counts as zero, one at its rim as the rim."""
    return _convert(step, modulated=False)


def modulated_convolution(step: MxnetStep) -> relax.Expr:
    """Sample by offsets, fading out beyond the image, and scale each sample by its mask."""
    return _convert(step, modulated=True)


def _convert(step: MxnetStep, *, modulated: bool) -> relax.Expr:
    attrs = step.attributes
    names = ["data", "offset", *(["mask"] if modulated else []), "weight"]
    biased = not attrs.flag("no_bias", False)
    *operands, w = step.operands(*names, *(["bias"] if biased else []))[: len(names)]
    kernel, strides, dilation, pad = window(step, "dilate")
    if len(kernel) != 2:
        raise NotImplementedError(f"deformable convolution in {len(kernel)} dimensions")
    groups = attrs.integer("num_group", 1, least=1)
    filters = attrs.integer("num_filter", least=1)
    expect_shape("weight", w, (filters, shape(step.x)[1] // groups, *kernel))
    y = deformable_conv2d(
        step.emit,
        operands,
        w,
        strides=(strides[0], strides[1]),
        padding=(pad[0], pad[1], pad[0], pad[1]),
        dilation=(dilation[0], dilation[1]),
        groups=groups,
        parts=attrs.integer("num_deformable_group", 1, least=1),
        rim="zero" if modulated else "edge",
    )
    return with_bias(step, y, list(step.inputs[len(names) :]), filters)


DEFORMABLE: dict[str, Converter] = {
    "_contrib_DeformableConvolution": deformable_convolution,
    "_contrib_ModulatedDeformableConvolution": modulated_convolution,
}
