"""Inverted residuals with gates (squeeze and excitation) and swish.

MobileNetV3-Large (Howard et al. 2019) and EfficientNet-B0 (Tan and Le 2019).
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Activation, Network, convolution
from benchmarks.zoo.resnet import BRANCH_GAIN

# Kernel, hidden channels, channels, gate, activation, stride.
MOBILE_ROWS = (
    (3, 16, 16, False, Network.relu, 1),
    (3, 64, 24, False, Network.relu, 2),
    (3, 72, 24, False, Network.relu, 1),
    (5, 72, 40, True, Network.relu, 2),
    (5, 120, 40, True, Network.relu, 1),
    (5, 120, 40, True, Network.relu, 1),
    (3, 240, 80, False, Network.hard_swish, 2),
    (3, 200, 80, False, Network.hard_swish, 1),
    (3, 184, 80, False, Network.hard_swish, 1),
    (3, 184, 80, False, Network.hard_swish, 1),
    (3, 480, 112, True, Network.hard_swish, 1),
    (3, 672, 112, True, Network.hard_swish, 1),
    (5, 672, 160, True, Network.hard_swish, 2),
    (5, 960, 160, True, Network.hard_swish, 1),
    (5, 960, 160, True, Network.hard_swish, 1),
)
# Expansion, kernel, stride of the first, channels, blocks, blocks when cut.
EFFICIENT_STAGES = (
    (1, 3, 1, 16, 1, 1),
    (6, 3, 2, 24, 2, 2),
    (6, 5, 2, 40, 2, 2),
    (6, 3, 2, 80, 3, 1),
    (6, 5, 1, 112, 3, 1),
    (6, 5, 2, 192, 4, 1),
    (6, 3, 1, 320, 1, 1),
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One inverted residual: widen, filter each channel, gate, narrow.

    Parameters
    ----------
    hidden, channels, kernel, stride
        Channels in between and at the end, and the depthwise convolution.
    squeezed
        Channels between the two layers of the gate; 0 without one.
    activation, gate
        After the first two convolutions; at the gate's end.
    """

    hidden: int
    channels: int
    kernel: int
    stride: int
    squeezed: int
    activation: Activation
    gate: Activation

    def write(self, net: Network, x: Tensor, name: str) -> Tensor:
        """Add the block; a residual where its ends are alike."""
        residual = self.stride == 1 and x.channels == self.channels
        y, parts = x, iter(range(4))
        if self.hidden != x.channels:
            y = convolution(net, y, f"{name}.{next(parts)}", self.hidden, 1, self.activation)
        y = convolution(
            net,
            y,
            f"{name}.{next(parts)}",
            self.hidden,
            self.kernel,
            self.activation,
            stride=self.stride,
            groups=self.hidden,
        )
        if self.squeezed:
            y = self._gated(net, y, f"{name}.{next(parts)}")
        part = f"{name}.{next(parts)}"
        y = net.conv(y, f"{part}.0", self.channels, 1)
        y = net.batch_norm(y, f"{part}.1", gain=BRANCH_GAIN if residual else 1.0)
        return net.add(x, y, f"{name}.add") if residual else y

    def _gated(self, net: Network, x: Tensor, name: str) -> Tensor:
        inner = Network.relu if self.gate is Network.hard_sigmoid else self.activation
        gate = net.global_pool(x, f"{name}.avgpool")
        gate = net.conv(gate, f"{name}.fc1", self.squeezed, 1, bias=True)
        gate = inner(net, gate, f"{name}.activation")
        gate = net.conv(gate, f"{name}.fc2", x.channels, 1, bias=True)
        return net.multiply(x, self.gate(net, gate, f"{name}.scale_activation"), f"{name}.gated")


@dataclass(frozen=True)
class MobileNetV3:
    """MobileNetV3-Large."""

    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = convolution(net, x, "features.0", 16, 3, Network.hard_swish, stride=2)
        for index, row in enumerate(MOBILE_ROWS, 1):
            if cut and row in MOBILE_ROWS[: index - 1]:
                continue
            kernel, hidden, channels, gate, activation, stride = row
            block = Block(
                hidden=hidden,
                channels=channels,
                kernel=kernel,
                stride=stride,
                squeezed=_divisible(hidden // 4) if gate else 0,
                activation=activation,
                gate=Network.hard_sigmoid,
            )
            x = block.write(net, x, f"features.{index}.block")
        x = convolution(net, x, f"features.{len(MOBILE_ROWS) + 1}", 960, 1, Network.hard_swish)
        x = net.flatten(net.global_pool(x, "avgpool"), "flatten")
        x = net.hard_swish(net.dense(x, "classifier.0", 1280), "classifier.1")
        return net.dense(x, "classifier.3", classes)


def _divisible(channels: int) -> int:
    """Return the multiple of 8 nearest to ``channels``, at least nine tenths of them."""
    near = max(8, (channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near


@dataclass(frozen=True)
class EfficientNet:
    """EfficientNet-B0."""

    image_size: int = 224

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = convolution(net, x, "features.0", 32, 3, Network.swish, stride=2)
        for stage, (expansion, kernel, stride, channels, full, short) in enumerate(
            EFFICIENT_STAGES, 1
        ):
            for index in range(short if cut else full):
                block = Block(
                    hidden=expansion * x.channels,
                    channels=channels,
                    kernel=kernel,
                    stride=1 if index else stride,
                    squeezed=x.channels // 4,
                    activation=Network.swish,
                    gate=Network.sigmoid,
                )
                x = block.write(net, x, f"features.{stage}.{index}.block")
        x = convolution(net, x, f"features.{len(EFFICIENT_STAGES) + 1}", 1280, 1, Network.swish)
        x = net.flatten(net.global_pool(x, "avgpool"), "flatten")
        return net.dense(x, "classifier.1", classes)
