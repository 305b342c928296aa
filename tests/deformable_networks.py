"""Small float networks with deformable convolutions, in canonical form."""

from collections.abc import Callable

import tvm
from tvm import relax

from relay_int8.frontend.deformable import deformable_conv2d
from relay_int8.graph.dataflow import shape
from tests.small_networks import NetworkWriter

nn = relax.op.nn


def deformable(
    net: NetworkWriter, name: str, x: relax.Var, channels: int, *, masked: bool, parts: int = 1,
    groups: int = 1, stride: int = 1, dilation: int = 1, rim: str = "zero",
) -> relax.Var:  # fmt: skip
    """Bind a deformable 3x3 convolution with bias; another convolution says where it looks."""
    window = {"strides": stride, "padding": dilation, "dilation": dilation}
    places = net.conv(f"{name}/places", x, (27 if masked else 18) * parts, 3, **window)
    operands = [x, places]
    if masked:
        cut = [
            net.emit(f"{name}/{step}", relax.op.strided_slice(places, [1], [begin], [end]))
            for step, begin, end in (("offset", 0, 18 * parts), ("logits", 18 * parts, 27 * parts))
        ]
        operands[1:] = [cut[0], net.emit(f"{name}/mask", relax.op.sigmoid(cut[1]))]
    w = net.constant(channels, shape(x)[1] // groups, 3, 3, scale=(9 * shape(x)[1]) ** -0.5)
    y = deformable_conv2d(
        lambda step, value: net.emit(f"{name}/{step}", value), operands, w,
        strides=(stride, stride), padding=(dilation,) * 4, dilation=(dilation, dilation),
        groups=groups, parts=parts, rim=rim,
    )  # fmt: skip
    y = net.emit(f"{name}/conv", y)
    return net.emit(name, relax.op.add(y, net.constant(1, channels, 1, 1, scale=0.3)))


def plain() -> tvm.IRModule:
    """Version 1, by ONNX's and by MXNet's rim, whole and ragged blocks, with a stride and dilated."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.relu("b", deformable(net, "b/bias", a, 10, masked=False, stride=2))
    c = net.conv("c", b, 10, 1)
    d = deformable(net, "d", c, 6, masked=False, parts=2, groups=2, dilation=2, rim="edge")
    return net.module(net.conv("e", d, 4, 1))


def modulated() -> tvm.IRModule:
    """Version 2, with masks."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 32, 3, padding=1, strides=2))
    b = net.relu("b", deformable(net, "b/bias", a, 32, masked=True, parts=2, groups=2))
    c = deformable(net, "c", b, 8, masked=True)
    return net.module(net.conv("d", c, 4, 1))


NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {"plain": plain, "modulated": modulated}
