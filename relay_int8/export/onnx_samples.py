"""Samples of a deformable convolution in ONNX: one convolution a channel that tells taps apart.

    samples = DeformConv(x, one-hot weights, offset, mask), its channels turned

A ``DeformConv`` of as many groups as channels, whose weights are 1 at one tap each, gives what the
taps see, channels outside of taps; they are turned by Reshape, Transpose, Reshape. The way back are
``frontend.onnx.deformable`` and ``passes.fold_samples``.
"""

from __future__ import annotations

from relay_int8.export.onnx_nodes import NodeWriter, Operation
from relay_int8.frontend.deformable import one_tap_each
from relay_int8.graph.spec_calls import spec_of
from schedules.spec import Recurrence, Sample2d


def write_samples(writer: NodeWriter, op: Operation) -> str:
    """Write the samples that a call of ``Sample2d`` gives."""
    spec = spec_of(op.call)
    if isinstance(spec, Recurrence):
        raise NotImplementedError("QDQ has no form of a recurrent layer's loop")
    if not isinstance(spec, Sample2d):
        raise NotImplementedError("it is a kernel of this project")
    if spec.rim != "zero":
        raise NotImplementedError("places within a pixel of the rim see the rim, as in MXNet")
    weights = writer.array(f"{op.output}:taps", one_tap_each(spec.channels, spec.kernel))
    x, offset, *mask = op.inputs
    apart = writer.node(
        "DeformConv",
        [x, weights, offset, *(["", *mask] if mask else [])],
        f"{op.output}/apart",
        kernel_shape=list(spec.kernel),
        strides=list(spec.strides),
        pads=list(spec.padding),
        dilations=list(spec.dilation),
        group=spec.channels,
        offset_group=spec.parts,
    )
    (n, columns, *area), inside = op.shape, spec.channels // spec.groups
    batch = 0 if writer.open_batch else n  # 0 is what it was
    split = writer.integers(f"{apart}:shape", [batch, spec.groups, inside, spec.taps, *area])
    split = writer.node("Reshape", [apart, split], f"{op.output}/split")
    turned = writer.node("Transpose", [split], f"{op.output}/turned", perm=[0, 1, 3, 2, 4, 5])
    joined = writer.integers(f"{op.output}:shape", [batch, columns, *area])
    return writer.node("Reshape", [turned, joined], op.output)
