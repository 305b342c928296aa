"""Blocks of today's networks for phones, segmentation and detection, as ONNX, a few layers each."""

from collections.abc import Callable

import onnx

from tests.onnx_writer import OnnxWriter

Shape = tuple[int, ...]


class Writer(OnnxWriter):
    """Writes nodes one after the other; every convolution has seeded weights and a batch norm."""

    def conv(
        self, x: str, channels: int, kernel: int, act: str = "", *, norm: bool = True, **at: int
    ) -> str:
        """Add convolution, batch norm and activation."""
        groups, dilation = at.get("groups", 1), at.get("dilation", 1)
        inner = self.channels[x] // groups
        w = self.rng.normal(size=(channels, inner, kernel, kernel)) * (inner * kernel**2) ** -0.5
        y = self.node(
            "Conv",
            [x, self.constant(w), self.constant(0.1 * self.rng.normal(size=channels))],
            channels,
            strides=[at.get("stride", 1)] * 2,
            pads=[dilation * (kernel // 2)] * 4,
            dilations=[dilation] * 2,
            group=groups,
        )
        return self.activate(self.norm(y) if norm else y, act)

    def deconv(self, x: str, channels: int, kernel: int, stride: int, act: str = "") -> str:
        """Add transposed convolution, batch norm and activation; the image grows by ``stride``."""
        inner, cut = self.channels[x], (kernel - stride) // 2
        w = self.rng.normal(size=(inner, channels, kernel, kernel)) * stride
        y = self.node(
            "ConvTranspose",
            [x, self.constant(w * (inner * kernel**2) ** -0.5)],
            channels,
            strides=[stride] * 2,
            pads=[cut] * 4,
        )
        return self.activate(self.norm(y), act)

    def activate(self, x: str, act: str) -> str:
        """Add an activation by its ONNX name; none where it is empty."""
        return self.node(act, [x], self.channels[x]) if act else x

    def squeeze_and_excite(self, x: str) -> str:
        """Multiply each channel by a gate that the means of all channels decide."""
        channels = self.channels[x]
        mean = self.node("GlobalAveragePool", [x], channels)
        hidden = self.conv(mean, max(channels // 4, 4), 1, "Relu", norm=False)
        gate = self.activate(self.conv(hidden, channels, 1, norm=False), "HardSigmoid")
        return self.node("Mul", [gate, x], channels)

    def shuffle(self, x: str, shape: Shape, groups: int = 2) -> str:
        """Interleave the channels of groups."""
        n, c, h, w = shape
        cut = self.node("Reshape", [x, self.constant((n, groups, c // groups, h, w), "int64")], c)
        turned = self.node("Transpose", [cut], c, perm=[0, 2, 1, 3, 4])
        return self.node("Reshape", [turned, self.constant(shape, "int64")], c)

    def resize(self, x: str, size: tuple[int, int], coordinates: str = "half_pixel") -> str:
        """Resize bilinearly."""
        c = self.channels[x]
        wanted = self.constant((1, c, *size), "int64")
        return self.node(
            "Resize", [x, "", "", wanted], c, mode="linear",
            coordinate_transformation_mode=coordinates,
        )  # fmt: skip

    def scale(self, op: str, x: str) -> str:
        """Combine each channel with a constant of its own."""
        k = self.rng.uniform(0.4, 1.6, (1, self.channels[x], 1, 1))
        return self.node(op, [x, self.constant(k)], self.channels[x])


def shufflenet_v2() -> onnx.ModelProto:
    """ShuffleNetV2 (Ma et al. 2018): stem, a unit that halves the image, two that do not."""
    net = Writer((1, 3, 24, 24))
    x = net.conv("x", 24, 3, "Relu", stride=2)
    left = net.conv(net.conv(x, 24, 3, stride=2, groups=24), 32, 1, "Relu")
    right = net.conv(x, 32, 1, "Relu")
    right = net.conv(net.conv(right, 32, 3, stride=2, groups=32), 32, 1, "Relu")
    x = net.shuffle(net.join(left, right), (1, 64, 6, 6))
    for _ in range(2):
        left, right = _halves(net, x)
        right = net.conv(right, 32, 1, "Relu")
        right = net.conv(net.conv(right, 32, 3, groups=32), 32, 1, "Relu")
        x = net.shuffle(net.join(left, right), (1, 64, 6, 6))
    return net.finish(_classify(net, net.conv(x, 96, 1, "Relu")))


def _halves(net: Writer, x: str) -> tuple[str, str]:
    half = net.channels[x] // 2
    axis = net.constant([1], "int64")
    first, middle, last = (net.constant([place], "int64") for place in (0, half, 2 * half))
    left = net.node("Slice", [x, first, middle, axis], half)
    return left, net.node("Slice", [x, middle, last, axis], half)


def _classify(net: Writer, x: str) -> str:
    mean = net.node("GlobalAveragePool", [x], net.channels[x])
    return net.conv(mean, 10, 1, norm=False)


def mobilenet_v3() -> onnx.ModelProto:
    """MobileNetV3 (Howard et al. 2019): hard-swish, squeeze-and-excite, inverted residuals."""
    net = Writer((1, 3, 24, 24))
    x = net.conv("x", 16, 3, "HardSwish", stride=2)
    for hidden, channels, kernel, act, gated, stride in (
        (32, 24, 3, "Relu", True, 2),
        (72, 24, 5, "HardSwish", True, 1),
        (48, 32, 3, "HardSwish", False, 1),
    ):
        y = net.conv(x, hidden, 1, act)
        y = net.conv(y, hidden, kernel, act, groups=hidden, stride=stride)
        y = net.squeeze_and_excite(y) if gated else y
        y = net.conv(y, channels, 1)
        kept = stride == 1 and channels == net.channels[x]
        x = net.node("Add", [x, y], channels) if kept else y
    return net.finish(_classify(net, net.conv(x, 64, 1, "HardSwish")))


def u_net() -> onnx.ModelProto:
    """U-Net (Ronneberger et al. 2015) with transposed convolutions of 2 and of 4."""
    net = Writer((1, 3, 16, 20))
    top = net.conv("x", 16, 3, "Relu")
    middle = net.conv(_halved(net, top), 32, 3, "Relu")
    bottom = net.conv(_halved(net, middle), 48, 3, "Relu")
    up = net.join(net.deconv(bottom, 32, 2, 2), middle)
    up = net.conv(up, 32, 3, "Relu")
    up = net.join(net.deconv(up, 16, 4, 2, "Relu"), top)
    return net.finish(net.conv(net.conv(up, 16, 3, "Relu"), 5, 1, norm=False))


def _halved(net: Writer, x: str) -> str:
    return net.node("MaxPool", [x], net.channels[x], kernel_shape=[2, 2], strides=[2, 2])


def deeplab_v3() -> onnx.ModelProto:
    """DeepLabV3+ (Chen et al. 2018): dilated convolutions, pooling of the image, bilinear resizes."""
    net = Writer((1, 3, 24, 28))
    low = net.conv("x", 16, 3, "Relu", stride=2)
    x = net.conv(low, 32, 3, "Relu", stride=2)
    x = net.conv(x, 32, 3, "Relu", dilation=2)
    mean = net.conv(net.node("GlobalAveragePool", [x], 32), 16, 1, "Relu", norm=False)
    branches = [net.conv(x, 16, 1, "Relu")]
    branches += [net.conv(x, 16, 3, "Relu", dilation=rate) for rate in (2, 4)]
    x = net.conv(net.join(*branches, net.resize(mean, (6, 7))), 32, 1, "Relu")
    x = net.join(net.resize(x, (12, 14), "align_corners"), net.conv(low, 12, 1, "Relu"))
    return net.finish(net.conv(net.conv(x, 32, 3, "Relu"), 6, 1, norm=False))


def light_cnn() -> onnx.ModelProto:
    """LightCNN (Wu et al. 2015): convolutions whose halves compete, blocks that add."""
    net = Writer((1, 1, 24, 24))

    def _compete(y: str) -> str:
        return net.node("Max", _halves(net, y), net.channels[y] // 2)

    x = _compete(net.conv("x", 48, 5, norm=False))
    x = net.node("MaxPool", [x], 24, kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("Add", [x, _compete(net.conv(x, 48, 3, norm=False))], 24)
    x = _compete(net.conv(_compete(net.conv(x, 48, 1, norm=False)), 64, 3, norm=False))
    return net.finish(_classify(net, x))


def scaled() -> onnx.ModelProto:
    """Scales and shifts of channels that no convolution can take; deviations from a mean."""
    net = Writer((1, 3, 20, 20))
    x = net.conv("x", 16, 3, "Relu", stride=2)
    for _ in range(2):
        grown = net.scale("Add", net.scale("Mul", x))
        x = net.join(x, net.conv(net.activate(grown, "Relu"), 12, 3))
    mean = net.node("GlobalAveragePool", [x], net.channels[x])
    apart = net.node("Sub", [x, mean], net.channels[x])
    y = net.node("Max", [net.scale("Div", apart), x], net.channels[x])
    return net.finish(_classify(net, net.conv(y, 24, 1, "Relu")))


def unmerged() -> onnx.ModelProto:
    """Blocks as they were trained: parallel windows (RepViT), mixtures (FastViT, EfficientViM)."""
    net = Writer((1, 3, 28, 28))
    x = net.conv("x", 16, 3, "Relu", stride=2)
    windows = (net.conv(x, 16, 3, groups=16), net.conv(x, 16, 1, groups=16, norm=False))
    x = net.node("Relu", [net.node("Add", [net.node("Add", windows, 16), x], 16)], 16)
    windows = (net.conv(x, 16, 3, groups=16), net.norm(x))
    x = net.node("Add", [x, net.scale("Mul", net.node("Sub", windows, 16))], 16)
    f = net.conv(net.conv(x, 32, 1, "Relu"), 16, 1)
    x = net.node("Add", [x, net.scale("Mul", net.node("Sub", [f, x], 16))], 16)
    return net.finish(_classify(net, net.conv(x, 24, 1, "Relu")))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "shufflenet_v2": shufflenet_v2,
    "mobilenet_v3": mobilenet_v3,
    "u_net": u_net,
    "deeplab_v3": deeplab_v3,
    "light_cnn": light_cnn,
    "scaled": scaled,
    "unmerged": unmerged,
}
