"""Inception V3 (Szegedy et al. 2015) without the auxiliary classifier, as torchvision builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import Network, Pair

Module = Callable[[Network, Tensor, str], Tensor]
EPSILON = 1e-3


@dataclass(frozen=True)
class InceptionV3:
    """Stem, then modules A to E; the smallest image is 75 x 75."""

    image_size: int = 299

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network and return its logits."""
        x = _conv(net, x, "Conv2d_1a_3x3", 32, 3, stride=2)
        x = _conv(net, x, "Conv2d_2a_3x3", 32, 3)
        x = _conv(net, x, "Conv2d_2b_3x3", 64, 3, padding=1)
        x = net.max_pool(x, "maxpool1", 3, 2)
        x = _conv(net, x, "Conv2d_3b_1x1", 80, 1)
        x = _conv(net, x, "Conv2d_4a_3x3", 192, 3)
        x = net.max_pool(x, "maxpool2", 3, 2)
        for name in CUT if cut else MODULES:
            x = MODULES[name](net, x, name)
        return net.dense(net.flatten(net.global_pool(x, "avgpool"), "flatten"), "fc", classes)


def _conv(
    net: Network,
    x: Tensor,
    name: str,
    channels: int,
    kernel: int | Pair,
    *,
    stride: int = 1,
    padding: int | Pair = 0,
) -> Tensor:
    x = net.conv(x, f"{name}.conv", channels, kernel, stride=stride, padding=padding)
    return net.relu(net.batch_norm(x, f"{name}.bn", epsilon=EPSILON), f"{name}.relu")


def _pooled(net: Network, x: Tensor, name: str, channels: int) -> Tensor:
    pooled = net.avg_pool(x, f"{name}.avgpool", 3, 1, 1)
    return _conv(net, pooled, f"{name}.branch_pool", channels, 1)


def _a(pool_channels: int) -> Module:
    def _write(net: Network, x: Tensor, name: str) -> Tensor:
        b5 = _conv(net, x, f"{name}.branch5x5_1", 48, 1)
        b3 = _conv(net, x, f"{name}.branch3x3dbl_1", 64, 1)
        b3 = _conv(net, b3, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
        parts = [
            _conv(net, x, f"{name}.branch1x1", 64, 1),
            _conv(net, b5, f"{name}.branch5x5_2", 64, 5, padding=2),
            _conv(net, b3, f"{name}.branch3x3dbl_3", 96, 3, padding=1),
            _pooled(net, x, name, pool_channels),
        ]
        return net.concat(parts, name)

    return _write


def _b(net: Network, x: Tensor, name: str) -> Tensor:
    double = _conv(net, x, f"{name}.branch3x3dbl_1", 64, 1)
    double = _conv(net, double, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
    parts = [
        _conv(net, x, f"{name}.branch3x3", 384, 3, stride=2),
        _conv(net, double, f"{name}.branch3x3dbl_3", 96, 3, stride=2),
        net.max_pool(x, f"{name}.maxpool", 3, 2),
    ]
    return net.concat(parts, name)


def _across(net: Network, x: Tensor, name: str, channels: int) -> Tensor:
    return _conv(net, x, name, channels, (1, 7), padding=(0, 3))


def _down(net: Network, x: Tensor, name: str, channels: int) -> Tensor:
    return _conv(net, x, name, channels, (7, 1), padding=(3, 0))


def _c(width: int) -> Module:
    def _write(net: Network, x: Tensor, name: str) -> Tensor:
        b7 = _conv(net, x, f"{name}.branch7x7_1", width, 1)
        b7 = _across(net, b7, f"{name}.branch7x7_2", width)
        double = _conv(net, x, f"{name}.branch7x7dbl_1", width, 1)
        for index, step in ((2, _down), (3, _across), (4, _down)):
            double = step(net, double, f"{name}.branch7x7dbl_{index}", width)
        parts = [
            _conv(net, x, f"{name}.branch1x1", 192, 1),
            _down(net, b7, f"{name}.branch7x7_3", 192),
            _across(net, double, f"{name}.branch7x7dbl_5", 192),
            _pooled(net, x, name, 192),
        ]
        return net.concat(parts, name)

    return _write


def _d(net: Network, x: Tensor, name: str) -> Tensor:
    b3 = _conv(net, x, f"{name}.branch3x3_1", 192, 1)
    b7 = _conv(net, x, f"{name}.branch7x7x3_1", 192, 1)
    b7 = _across(net, b7, f"{name}.branch7x7x3_2", 192)
    b7 = _down(net, b7, f"{name}.branch7x7x3_3", 192)
    parts = [
        _conv(net, b3, f"{name}.branch3x3_2", 320, 3, stride=2),
        _conv(net, b7, f"{name}.branch7x7x3_4", 192, 3, stride=2),
        net.max_pool(x, f"{name}.maxpool", 3, 2),
    ]
    return net.concat(parts, name)


def _e(net: Network, x: Tensor, name: str) -> Tensor:
    b3 = _conv(net, x, f"{name}.branch3x3_1", 384, 1)
    double = _conv(net, x, f"{name}.branch3x3dbl_1", 448, 1)
    double = _conv(net, double, f"{name}.branch3x3dbl_2", 384, 3, padding=1)
    parts = [
        _conv(net, x, f"{name}.branch1x1", 320, 1),
        _forked(net, b3, f"{name}.branch3x3_2"),
        _forked(net, double, f"{name}.branch3x3dbl_3"),
        _pooled(net, x, name, 192),
    ]
    return net.concat(parts, name)


def _forked(net: Network, x: Tensor, name: str) -> Tensor:
    """Put a 1x3 and a 3x1 of the same tensor side by side."""
    across = _conv(net, x, f"{name}a", 384, (1, 3), padding=(0, 1))
    down = _conv(net, x, f"{name}b", 384, (3, 1), padding=(1, 0))
    return net.concat([across, down], name)


MODULES: dict[str, Module] = {
    "Mixed_5b": _a(32),
    "Mixed_5c": _a(64),
    "Mixed_5d": _a(64),
    "Mixed_6a": _b,
    "Mixed_6b": _c(128),
    "Mixed_6c": _c(160),
    "Mixed_6d": _c(160),
    "Mixed_6e": _c(192),
    "Mixed_7a": _d,
    "Mixed_7b": _e,
    "Mixed_7c": _e,
}
CUT = ("Mixed_5b", "Mixed_6a", "Mixed_6b", "Mixed_7a", "Mixed_7b")  # one of each kind
