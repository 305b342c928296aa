"""torchvision's deform_conv2d; ``frontend.deformable`` has what it becomes."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.deformable import deformable_conv2d
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


def _deform_conv(step: TorchStep) -> Result:
    """Sample by offsets, fading out beyond the image, times a mask where it is used; convolve."""
    masked = step.flag("use_mask", False)
    x, w, offset = step.x, step.tensor("weight"), step.tensor("offset")
    if len(shape(x)) != 4 or len(shape(w)) != 4:
        raise ValueError(f"its weight {shape(w)} does not fit an input {shape(x)}")
    top, left = _pair(step, "pad", 0)
    y = deformable_conv2d(
        step.emit,
        [x, offset, *([step.tensor("mask")] if masked else [])],
        w,
        strides=_pair(step, "stride", 1),
        padding=(top, left, top, left),
        dilation=_pair(step, "dilation", 1),
        groups=_least(step, "groups", 1),
        parts=_least(step, "offset_groups", 1),
        rim="zero",
    )
    bias = step.optional_tensor("bias")
    if bias is None:
        return y
    if shape(bias) != shape(w)[:1]:
        raise ValueError(f"its bias is {shape(bias)}, not {shape(w)[0]}")
    return relax.op.add(
        step.emit("conv", y), step.emit("bias", relax.op.reshape(bias, (1, -1, 1, 1)))
    )


def _pair(step: TorchStep, name: str, least: int) -> tuple[int, int]:
    return _least(step, f"{name}_h", least), _least(step, f"{name}_w", least)


def _least(step: TorchStep, name: str, least: int) -> int:
    number = step.integer(name, least)
    if not least <= number < 2**31:
        raise ValueError(f"its {name} is {number}, not {least} or more")
    return number


DEFORMABLE: dict[str, Converter] = {"torchvision.deform_conv2d": _deform_conv}
