"""Well-known networks as ONNX models, with the published structures and made-up weights.

For benchmarks and tests: timing does not depend on what a network has learned. Names of layers are
torchvision's where it has the network, of transformers near those of the implementation exported.
"""

from __future__ import annotations

from typing import Literal, Protocol

import onnx

from benchmarks.zoo.bert import BERT_BASE, DISTILBERT, DISTILBERT_3
from benchmarks.zoo.convnext import CONVNEXT_T
from benchmarks.zoo.deformable import DCN_RESNET_101, DCN_V2_RESNET_101
from benchmarks.zoo.densenet import DenseNet
from benchmarks.zoo.drn import DRN
from benchmarks.zoo.fcn import FCN_RESNET_50
from benchmarks.zoo.gated import EfficientNet, MobileNetV3
from benchmarks.zoo.graph_writer import Cost, Tensor
from benchmarks.zoo.inception import InceptionV3
from benchmarks.zoo.mobilenet import MobileNetV2
from benchmarks.zoo.mobilevit import MOBILEVIT_S
from benchmarks.zoo.network import Network
from benchmarks.zoo.resnet import RESNET_18, RESNET_50, RESNEXT_50
from benchmarks.zoo.segformer import SEGFORMER_B0
from benchmarks.zoo.swin import SWIN_T
from benchmarks.zoo.tokens import Input, TokenNetwork, Tokens
from benchmarks.zoo.unet import UNet
from benchmarks.zoo.vgg import VGG
from benchmarks.zoo.vit import VIT_B_32, VIT_S_16
from relay_int8.errors import ConfigError

__all__ = [
    "NETWORKS",
    "SEGMENTED",
    "TRANSFORMERS",
    "Builder",
    "Cost",
    "Depth",
    "Input",
    "Transformer",
    "build",
    "cost",
    "default_size",
    "inputs",
]

Depth = Literal["full", "cut"]
CLASSES = 1000  # of ImageNet, as most convolutional networks here were published
SEGMENTED = {"unet": 1, "fcn_resnet50": 21}
"""Networks that end in a map for each class, and how many these are."""


class Builder(Protocol):
    """A network that can write itself; ``image_size`` is the one it was published with."""

    @property
    def image_size(self) -> int:
        """Height and width of the published input."""

    def write(self, net: Network, x: Tensor, *, cut: bool, classes: int) -> Tensor:
        """Add the network to ``net`` and return its logits; ``cut`` keeps one block a kind."""


class Transformer(Protocol):
    """A network of tokens that can write itself, for one batch, in today's exporters' form."""

    @property
    def size(self) -> int:
        """Height and width of the published image, or the number of tokens."""

    @property
    def opset(self) -> int:
        """Version of ONNX's operators that it is written in."""

    @property
    def classes(self) -> int:
        """Number of logits that it was published with; 0 where it ends in hidden states."""

    def narrow(self) -> Transformer:
        """Return the same with few narrow blocks, for tests."""

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add inputs and network to ``net`` and return what it ends in."""


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
    "densenet121": DenseNet(),
    "unet": UNet(),
    "fcn_resnet50": FCN_RESNET_50,
    "dcn_resnet101": DCN_RESNET_101,
    "dcn_v2_resnet101": DCN_V2_RESNET_101,
}
"""Convolutional networks, of one image."""

TRANSFORMERS: dict[str, Transformer] = {
    "vit_b_32": VIT_B_32,
    "vit_s_16": VIT_S_16,
    "swin_t": SWIN_T,
    "convnext_t": CONVNEXT_T,
    "segformer_b0": SEGFORMER_B0,
    "mobilevit_s": MOBILEVIT_S,
    "bert_base": BERT_BASE,
    "distilbert": DISTILBERT,
    "distilbert_3": DISTILBERT_3,
}
"""Networks of tokens: attention, or norms and dense layers over pixels. Some read words."""


def build(
    name: str,
    *,
    image_size: int | None = None,
    batch: int | str = 1,
    depth: Depth = "full",
    classes: int | None = None,
    seed: int = 0,
) -> onnx.ModelProto:
    """Return a network of the zoo as an ONNX model, from its inputs to its logits.

    Parameters
    ----------
    name
        A key of :data:`NETWORKS` or of :data:`TRANSFORMERS`.
    image_size
        Height and width of the input, or the number of tokens; the published ones by default. At
        least 32, and 75 for Inception V3.
    batch
        Leading extent of the inputs; a name, as "N", leaves that of a convolutional network open.
    depth
        "cut" keeps one block of every distinct kind, for tests; transformers are narrow, too.
    classes
        Number of logits; as published by default. BERT and DistilBERT end in hidden states.
    seed
        Seed of the weights.
    """
    net, output = _write(name, image_size, batch, depth, classes, seed)
    if isinstance(net, TokenNetwork):
        return net.finish(name, output)
    assert isinstance(output, Tensor)
    return net.finish(name, output)


def cost(
    name: str, *, image_size: int | None = None, depth: Depth = "full", classes: int | None = None
) -> Cost:
    """Return parameters and multiplications per image, without making any weights."""
    return _write(name, image_size, 1, depth, classes, None)[0].cost


def inputs(name: str, *, image_size: int | None = None, depth: Depth = "full") -> list[Input]:
    """Return what a network reads, with the range of its indices."""
    if name in TRANSFORMERS:
        net = _write(name, image_size, 1, depth, 1, None)[0]
        assert isinstance(net, TokenNetwork)
        return net.inputs
    size = default_size(name) if image_size is None else image_size
    return [Input("input", (3, size, size))]


def default_size(name: str) -> int:
    """Return the published height and width, or the number of tokens."""
    if name in TRANSFORMERS:
        return TRANSFORMERS[name].size
    return _builder(name).image_size


def _builder(name: str) -> Builder:
    if name not in NETWORKS:
        raise ConfigError(f"no network {name!r}; there are {', '.join((*NETWORKS, *TRANSFORMERS))}")
    return NETWORKS[name]


def _write(
    name: str,
    image_size: int | None,
    batch: int | str,
    depth: Depth,
    classes: int | None,
    seed: int | None,
) -> tuple[Network, Tensor | Tokens]:
    size = default_size(name) if image_size is None else image_size
    if name in TRANSFORMERS:
        return _write_transformer(name, size, batch, depth, classes, seed)
    net = Network(batch=batch, seed=seed)
    x = net.input(3, size)
    classes = classes or SEGMENTED.get(name, CLASSES)
    return net, _builder(name).write(net, x, cut=depth == "cut", classes=classes)


def _write_transformer(
    name: str, size: int, batch: int | str, depth: Depth, classes: int | None, seed: int | None
) -> tuple[TokenNetwork, Tokens]:
    if isinstance(batch, str):
        raise ConfigError(
            f"{name}: its shapes are written for one batch, found the name {batch!r}; give a number"
        )
    builder = TRANSFORMERS[name] if depth == "full" else TRANSFORMERS[name].narrow()
    net = TokenNetwork(batch=batch, seed=seed, opset=builder.opset)
    return net, builder.write(net, size, classes or builder.classes)
