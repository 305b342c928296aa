"""Networks over sequences as ONNX: keyword spotting, heart beats, audio, a few layers each."""

from collections.abc import Callable, Sequence

import onnx

from tests.onnx_writer import OnnxWriter

Shape = tuple[int, int, int]


class Writer(OnnxWriter):
    """Writes nodes one after the other; weights are seeded."""

    def act(self, op: str, x: str, **attributes: object) -> str:
        """Add a node that keeps the channels of its one operand."""
        return self.node(op, [x], self.channels[x], **attributes)

    def normal(self, *dims: int, fan: int) -> str:
        """Add normal weights that keep the variance of what ``fan`` inputs sum to."""
        return self.constant(self.rng.normal(size=dims) * fan**-0.5)

    def conv(self, x: str, channels: int, kernel: int, act: str = "Relu", **at: object) -> str:
        """Add convolution, batch norm and activation."""
        inner = self.channels[x] // int(at.get("group", 1))  # type: ignore[call-overload]
        weights = [self.normal(channels, inner, kernel, fan=inner * kernel)]
        return self._finished(
            "Conv", [x, *weights, self.normal(channels, fan=9)], channels, act, at
        )

    def deconv(self, x: str, channels: int, kernel: int, act: str = "Relu", **at: object) -> str:
        """Add transposed convolution, batch norm and activation."""
        inner = self.channels[x]
        weights = [self.normal(inner, channels, kernel, fan=inner)]
        return self._finished("ConvTranspose", [x, *weights], channels, act, at)

    def _finished(
        self, op: str, inputs: Sequence[str], channels: int, act: str, at: dict[str, object]
    ) -> str:
        y = self.norm(self.node(op, inputs, channels, **at))
        return self.act(act, y) if act else y

    def gated(self, x: str, hidden: int) -> str:
        """Add squeeze-and-excite."""
        c = self.channels[x]
        squeezed = self.node("Conv", [self.act("GlobalAveragePool", x), self.normal(hidden, c, 1, fan=c)], hidden)  # fmt: skip
        gate = self.node("Conv", [self.act("Relu", squeezed), self.normal(c, hidden, 1, fan=hidden)], c)  # fmt: skip
        return self.node("Mul", [x, self.act("Sigmoid", gate)], c)

    def dense(self, x: str, inputs: int, classes: int) -> str:
        """Flatten and multiply."""
        flat = self.act("Flatten", x)
        w = self.normal(inputs, classes, fan=inputs)
        return self.node("Gemm", [flat, w, self.normal(classes, fan=9)], classes)


def tc_resnet() -> onnx.ModelProto:
    """TC-ResNet (Choi et al. 2019): cepstra as channels, residual blocks along time."""
    net = Writer((1, 40, 49))
    x = net.conv("x", 16, 3, pads=[1, 1])
    for channels in (24, 32):
        y = net.conv(x, channels, 9, strides=[2], pads=[4, 4])
        y = net.conv(y, channels, 9, "", pads=[4, 4])
        short = net.conv(x, channels, 1, strides=[2])
        x = net.act("Relu", net.node("Add", [y, short], channels))
    mean = net.act("GlobalAveragePool", x)
    return net.finish(net.act("Softmax", net.dense(mean, 32, 12), axis=1))


def heart_beats() -> onnx.ModelProto:
    """One lead of an electrocardiogram: wide windows, pooling, gates, a dense end."""
    net = Writer((2, 1, 187))
    x = net.conv("x", 16, 5, pads=[2, 2])
    for dilation in (1, 2):
        reach = 2 * dilation
        y = net.conv(x, 16, 5, pads=[reach, reach], dilations=[dilation])
        y = net.gated(net.conv(y, 16, 5, "", pads=[reach, reach], dilations=[dilation]), 4)
        y = net.act("Relu", net.node("Add", [x, y], 16))
        x = net.act("MaxPool", y, kernel_shape=[5], strides=[2])
    x = net.act("AveragePool", x, kernel_shape=[3], strides=[3], pads=[1, 1])
    return net.finish(net.dense(x, 16 * 15, 5))


def separable() -> onnx.ModelProto:
    """Depthwise and pointwise convolutions with other activations, an input that is normalized."""
    net = Writer((1, 20, 64))
    x = net.norm("x")
    for channels, act in ((32, "LeakyRelu"), (32, "HardSwish"), (48, "Relu")):
        c = 20 if channels == 32 and act == "LeakyRelu" else 32
        x = net.conv(x, c, 9, act, pads=[4, 4], group=c)
        x = net.conv(x, channels, 1, act)
    mean = net.node("ReduceMean", [x], 48, axes=[2], keepdims=0)
    return net.finish(net.node("MatMul", [mean, net.normal(48, 8, fan=48)], 8))


def u_net() -> onnx.ModelProto:
    """A U-Net along time: halved and doubled again, joined across."""
    net = Writer((1, 8, 64))
    top = net.conv("x", 16, 5, pads=[2, 2])
    low = net.conv(net.act("MaxPool", top, kernel_shape=[2], strides=[2]), 32, 5, pads=[2, 2])
    up = net.deconv(low, 16, 4, strides=[2], pads=[1, 1])
    x = net.conv(net.join(up, top), 16, 5, pads=[2, 2])
    return net.finish(net.conv(x, 4, 1, ""))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "tc_resnet": tc_resnet,
    "heart_beats": heart_beats,
    "separable": separable,
    "u_net": u_net,
}
