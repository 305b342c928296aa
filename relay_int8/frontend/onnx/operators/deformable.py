"""ONNX's DeformConv (opset 19); ``frontend.deformable`` has what it becomes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.deformable import deformable_conv2d
from relay_int8.graph.dataflow import shape


def deform_conv(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Sample by offsets, fading out beyond the image, times a mask if there is one; convolve."""
    x, w, offset, bias, mask = (*inputs, None, None)[:5]
    rank = len(shape(x)) - 2
    if rank != 2:
        raise NotImplementedError(f"deformable convolution in {rank} dimensions")
    top, left, bottom, right = attributes.get("pads", (0, 0, 0, 0))
    strides, dilation = (attributes.get(name, (1, 1)) for name in ("strides", "dilations"))
    value = bb.lookup_binding(w) if isinstance(w, relax.Var) else w
    y = deformable_conv2d(
        lambda _step, value: bb.emit(value),
        [x, offset, *([] if mask is None else [mask])],
        w if value is None else value,
        strides=(int(strides[0]), int(strides[1])),
        padding=(int(top), int(left), int(bottom), int(right)),
        dilation=(int(dilation[0]), int(dilation[1])),
        groups=int(attributes.get("group", 1)),
        parts=int(attributes.get("offset_group", 1)),
        rim="zero",
    )
    if bias is None:
        return y
    return relax.op.add(bb.emit(y), relax.op.reshape(bias, (1, -1, 1, 1)))
