"""Write a convolutional network as ONNX, layer by layer, with seeded weights of sensible scale.

Weights are normal with a standard deviation that gives every layer an output of mean square near 1,
which an estimate of each tensor's mean square, carried along, makes possible at any depth. Batch
norms have statistics of their own: gammas spread over a factor of 3, means and betas off zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from onnx import TensorProto, helper

from benchmarks.zoo.graph_writer import GraphWriter, Tensor
from relay_int8.errors import ConfigError

BETWEEN_PIXELS = 0.5  # what interpolation, and the zeros beyond the image, leave of a mean square
MASKED = 0.29  # mean square of the logistic function of a normal number
HARD_MASKED = 0.28  # of the hard one
SWISHED = 0.40  # what either, times its argument, leaves of a mean square somewhat above 1
Pair = tuple[int, int]


class Network(GraphWriter):
    """A network in the making; every method adds one layer and returns its output."""

    def input(self, channels: int, size: int) -> Tensor:
        """Add the image; its mean square is taken to be 1."""
        dims = (self._batch, channels, size, size)
        self._inputs.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, dims))
        return Tensor("input", channels, size, size, 1.0)

    def conv(
        self,
        x: Tensor,
        name: str,
        channels: int,
        kernel: int | Pair,
        *,
        stride: int = 1,
        padding: int | Pair = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Add a convolution."""
        kh, kw = _pair(kernel)
        ph, pw = _pair(padding)
        fan_in = x.channels // groups * kh * kw
        names = [x.name, f"{name}.weight", *([f"{name}.bias"] if bias else [])]
        shape = (channels, x.channels // groups, kh, kw)
        self._normal(names[1], shape, (fan_in * x.square) ** -0.5)
        if bias:
            self._normal(names[2], (channels,), 0.1)
        self._add(
            "Conv",
            names,
            name,
            kernel_shape=[kh, kw],
            strides=[stride, stride],
            pads=[ph, pw, ph, pw],
            dilations=[dilation, dilation],
            group=groups,
        )
        height = (x.height + 2 * ph - dilation * (kh - 1) - 1) // stride + 1
        width = (x.width + 2 * pw - dilation * (kw - 1) - 1) // stride + 1
        self.cost.macs += channels * fan_in * height * width
        return _image(name, channels, height, width, 1.0)

    def deconv(self, x: Tensor, name: str, channels: int, kernel: int) -> Tensor:
        """Add a transposed convolution with bias whose stride is its kernel."""
        names = [x.name, f"{name}.weight", f"{name}.bias"]
        shape = (x.channels, channels, kernel, kernel)
        self._normal(names[1], shape, (x.channels * x.square) ** -0.5)
        self._normal(names[2], (channels,), 0.1)
        self._add("ConvTranspose", names, name, kernel_shape=[kernel] * 2, strides=[kernel] * 2)
        self.cost.macs += x.channels * channels * kernel**2 * x.height * x.width
        return _image(name, channels, x.height * kernel, x.width * kernel, 1.0)

    def resize(self, x: Tensor, name: str, height: int, width: int) -> Tensor:
        """Add a bilinear resize by whole factors, between the centers of pixels."""
        scales = np.array([1, 1, height / x.height, width / x.width], np.float32)
        self._constant(f"{name}.scales", scales)
        self._add("Resize", [x.name, "", f"{name}.scales"], name, mode="linear")
        return replace(x, name=name, height=height, width=width)

    def deform_conv(
        self,
        x: Tensor,
        offset: Tensor,
        mask: Tensor | None,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        parts: int = 1,
    ) -> Tensor:
        """Add a deformable convolution, with a mask version 2."""
        fan_in = x.channels * kernel**2
        seen = x.square * BETWEEN_PIXELS * (1.0 if mask is None else MASKED)
        self._normal(
            f"{name}.weight", (channels, x.channels, kernel, kernel), (fan_in * seen) ** -0.5
        )
        names = [x.name, f"{name}.weight", offset.name, *([] if mask is None else ["", mask.name])]
        self._add(
            "DeformConv",
            names,
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[padding] * 4,
            dilations=[dilation] * 2,
            offset_group=parts,
        )
        self.cost.macs += channels * fan_in * offset.height * offset.width
        return _image(name, channels, offset.height, offset.width, 1.0)

    def sigmoid(self, x: Tensor, name: str) -> Tensor:
        """Add a logistic function."""
        self._add("Sigmoid", [x.name], name)
        return replace(x, name=name, square=MASKED, positive=MASKED)

    def hard_sigmoid(self, x: Tensor, name: str) -> Tensor:
        """Add a hard logistic function: x / 6 + 1/2, between 0 and 1."""
        self._add("HardSigmoid", [x.name], name, alpha=1 / 6, beta=0.5)
        return replace(x, name=name, square=HARD_MASKED, positive=HARD_MASKED)

    def hard_swish(self, x: Tensor, name: str) -> Tensor:
        """Add a hard-swish: x times its hard logistic function."""
        self._add("HardSwish", [x.name], name)
        return replace(x, name=name, square=SWISHED * x.square, positive=0.0)

    def swish(self, x: Tensor, name: str) -> Tensor:
        """Add a swish as exporters write it: x times its logistic function."""
        y = self.multiply(x, self.sigmoid(x, f"{name}.sigmoid"), name)
        return replace(y, square=SWISHED * x.square)

    def multiply(self, x: Tensor, gate: Tensor, name: str) -> Tensor:
        """Multiply by a gate, which may have one value a channel."""
        self._add("Mul", [x.name, gate.name], name)
        return replace(x, name=name, square=x.square * gate.square, positive=0.0)

    def cut(self, x: Tensor, name: str, begin: int, end: int) -> Tensor:
        """Keep a range of the channels."""
        bounds = {"starts": begin, "ends": end, "axes": 1}
        for bound, value in bounds.items():
            self._constant(f"{name}.{bound}", np.array([value], np.int64))
        self._add("Slice", [x.name, *(f"{name}.{bound}" for bound in bounds)], name)
        return replace(x, name=name, channels=end - begin)

    def batch_norm(
        self, x: Tensor, name: str, *, gain: float = 1.0, epsilon: float = 1e-5
    ) -> Tensor:
        """Add a batch norm whose gammas lie around ``gain``."""
        shape = (x.channels,)
        names = [f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var")]
        self._spread(names[0], shape, gain)
        self._normal(names[1], shape, 0.2)
        self._normal(names[2], shape, 0.2)
        self._spread(names[3], shape, x.square)
        self.cost.parameters -= 2 * x.channels  # statistics are not learned
        self._add("BatchNormalization", [x.name, *names], name, epsilon=epsilon)
        return _image(name, x.channels, x.height, x.width, 1.2 * gain**2 + 0.04)

    def relu(self, x: Tensor, name: str, *, six: bool = False) -> Tensor:
        """Add a ReLU, or a ReLU6."""
        if six:
            if not any(node.op_type == "Clip" for node in self._nodes):
                self._constant("relu6.min", np.float32(0))
                self._constant("relu6.max", np.float32(6))
            self._add("Clip", [x.name, "relu6.min", "relu6.max"], name)
        else:
            self._add("Relu", [x.name], name)
        kept = (x.square + x.positive) / 2
        return replace(x, name=name, square=kept, positive=kept)

    def max_pool(self, x: Tensor, name: str, kernel: int, stride: int, padding: int = 0) -> Tensor:
        """Add max pooling."""
        return self._pool("MaxPool", x, name, kernel, stride, padding, x.square * kernel**0.7)

    def avg_pool(self, x: Tensor, name: str, kernel: int, stride: int, padding: int = 0) -> Tensor:
        """Add average pooling that counts the padding, as PyTorch does."""
        square = x.square * 0.6
        return self._pool(
            "AveragePool", x, name, kernel, stride, padding, square, count_include_pad=1
        )

    def add(self, a: Tensor, b: Tensor, name: str) -> Tensor:
        """Add two tensors."""
        self._add("Add", [a.name, b.name], name)
        square, positive = a.square + b.square, a.positive + b.positive
        return replace(a, name=name, square=square, positive=positive)

    def concat(self, parts: Sequence[Tensor], name: str) -> Tensor:
        """Concatenate channels."""
        self._add("Concat", [part.name for part in parts], name, axis=1)
        channels = sum(part.channels for part in parts)
        square = sum(part.square * part.channels for part in parts) / channels
        return _image(name, channels, parts[0].height, parts[0].width, square)

    def global_pool(self, x: Tensor, name: str) -> Tensor:
        """Average over height and width."""
        self._add("GlobalAveragePool", [x.name], name)
        return _image(name, x.channels, 1, 1, x.square * 0.6)

    def flatten(self, x: Tensor, name: str) -> Tensor:
        """Put channels, height and width into one axis."""
        self._add("Flatten", [x.name], name, axis=1)
        return _image(name, x.channels * x.height * x.width, 1, 1, x.square)

    def dense(self, x: Tensor, name: str, channels: int) -> Tensor:
        """Add a fully connected layer with bias."""
        names = [x.name, f"{name}.weight", f"{name}.bias"]
        self._normal(names[1], (channels, x.channels), (x.channels * x.square) ** -0.5)
        self._normal(names[2], (channels,), 0.1)
        self._add("Gemm", names, name, transB=1)
        self.cost.macs += channels * x.channels
        return _image(name, channels, 1, 1, 1.0)

    def _pool(
        self,
        op: str,
        x: Tensor,
        name: str,
        kernel: int,
        stride: int,
        padding: int,
        square: float,
        **attributes: int,
    ) -> Tensor:
        self._add(
            op,
            [x.name],
            name,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[padding] * 4,
            **attributes,
        )
        sizes = [(size + 2 * padding - kernel) // stride + 1 for size in (x.height, x.width)]
        return _image(name, x.channels, sizes[0], sizes[1], square)


Activation = Callable[[Network, Tensor, str], Tensor]


def convolution(
    net: Network,
    x: Tensor,
    name: str,
    channels: int,
    kernel: int,
    activation: Activation,
    *,
    stride: int = 1,
    groups: int = 1,
) -> Tensor:
    """Add a convolution, a batch norm and an activation."""
    padding = kernel // 2
    x = net.conv(x, f"{name}.0", channels, kernel, stride=stride, padding=padding, groups=groups)
    return activation(net, net.batch_norm(x, f"{name}.1"), f"{name}.2")


def _pair(value: int | Pair) -> Pair:
    return value if isinstance(value, tuple) else (value, value)


def _image(name: str, channels: int, height: int, width: int, square: float) -> Tensor:
    if height < 1 or width < 1:
        raise ConfigError(f"{name}: nothing is left of the image; build with a larger image_size")
    return Tensor(name, channels, height, width, square)
