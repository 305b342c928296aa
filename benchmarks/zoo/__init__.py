"""Well-known networks as ONNX models, with the published structures and made-up weights.

For benchmarks and tests: timing does not depend on what a network has learned. Names of layers are
torchvision's where it has the network.
"""

from __future__ import annotations

from typing import Literal, Protocol

import onnx

from benchmarks.zoo.deformable import DCN_RESNET_101, DCN_V2_RESNET_101
from benchmarks.zoo.drn import DRN
from benchmarks.zoo.gated import EfficientNet, MobileNetV3
from benchmarks.zoo.inception import InceptionV3
from benchmarks.zoo.mobilenet import MobileNetV2
from benchmarks.zoo.network import Cost, Network, Tensor
from benchmarks.zoo.resnet import RESNET_18, RESNET_50, RESNEXT_50
from benchmarks.zoo.vgg import VGG
from relay_int8.errors import ConfigError

__all__ = ["NETWORKS", "Builder", "Cost", "build", "cost"]

Depth = Literal["full", "cut"]


class Builder(Protocol):
    """A network that can write itself; ``image_size`` is the one it was published with."""

    @property
    def image_size(self) -> int:
        """Height and width of the published input."""

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network to ``net`` and return its logits; ``cut`` keeps one block a kind."""


NETWORKS: dict[str, Builder] = {
    "resnet18": RESNET_18,
    "resnet50": RESNET_50,
    "vgg19": VGG(),
    "inception_v3": InceptionV3(),
    "resnext50_32x4d": RESNEXT_50,
    "drn_c_26": DRN(),
    "mobilenet_v2": MobileNetV2(),
    "mobilenet_v3_large": MobileNetV3(),
    "efficientnet_b0": EfficientNet(),
    "dcn_resnet101": DCN_RESNET_101,
    "dcn_v2_resnet101": DCN_V2_RESNET_101,
}


def build(
    name: str,
    *,
    image_size: int | None = None,
    batch: int | str = 1,
    depth: Depth = "full",
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Return a network of :data:`NETWORKS` as an ONNX model from ``input`` to its logits.

    Parameters
    ----------
    name
        A key of :data:`NETWORKS`.
    image_size
        Height and width of the input; the published ones by default. At least 32, and 75 for
        Inception V3.
    batch
        Leading extent of the input; a name, as "N", leaves it open.
    depth
        "cut" keeps one block of every distinct kind, for tests.
    classes
        Number of logits.
    seed
        Seed of the weights.
    """
    net, logits = _write(name, image_size, batch, depth, classes, seed)
    return net.finish(name, logits)


def cost(
    name: str, *, image_size: int | None = None, depth: Depth = "full", classes: int = 1000
) -> Cost:
    """Return parameters and multiplications per image, without making any weights."""
    return _write(name, image_size, 1, depth, classes, None)[0].cost


def _write(
    name: str,
    image_size: int | None,
    batch: int | str,
    depth: Depth,
    classes: int,
    seed: int | None,
) -> tuple[Network, Tensor]:
    if name not in NETWORKS:
        raise ConfigError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    builder = NETWORKS[name]
    net = Network(batch=batch, seed=seed)
    x = net.input(3, builder.image_size if image_size is None else image_size)
    return net, builder.write(net, x, cut=depth == "cut", classes=classes)
