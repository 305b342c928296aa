"""ConvNeXt (Liu et al. 2022), as torchvision writes it: norms and dense layers are over pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.zoo.attention import BRANCH_GAIN, perceptron
from benchmarks.zoo.tokens import TokenNetwork, Tokens

EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class ConvNeXt:
    """Stages of depthwise convolutions of 7x7, each followed by a perceptron.

    Attributes
    ----------
    widths, blocks
        Channels and number of blocks of each stage.
    """

    widths: tuple[int, ...]
    blocks: tuple[int, ...]
    size: int = 224
    opset: int = 18
    classes: int = 1000

    def narrow(self) -> ConvNeXt:
        """Return the same with one narrow block in each of two stages."""
        return replace(self, widths=(32, 64), blocks=(1, 1))

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add the network and return its logits."""
        image = net.conv(net.input(3, size), "features.0.0", self.widths[0], 4, stride=4, bias=True)
        x = _pixel_norm(net, net.unpacked(image), "features.0.1")
        for stage, (width, blocks) in enumerate(zip(self.widths, self.blocks, strict=True)):
            if stage:
                name = f"features.{2 * stage}"
                image = net.image(_pixel_norm(net, x, f"{name}.0"))
                x = net.unpacked(net.conv(image, f"{name}.1", width, 2, stride=2, bias=True))
            for block in range(blocks):
                x = _block(net, x, f"features.{2 * stage + 1}.{block}")
        x = _pixel_norm(net, net.adaptive_mean(x, "avgpool"), "classifier.0")
        return net.gemm(net.reshape(x, "classifier.1", x.shape[:2]), "classifier.2", classes)


def _block(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    width = x.shape[1]
    y = net.conv(net.image(x), f"{name}.block.0", width, 7, padding=3, groups=width, bias=True)
    tokens = net.transpose(net.unpacked(y), f"{name}.block.1", 0, 2, 3, 1)
    tokens = net.layer_norm(tokens, f"{name}.block.2", epsilon=EPSILON)
    tokens = perceptron(net, tokens, (f"{name}.block.3", f"{name}.block.5"), 4 * width)
    tokens = net.transpose(tokens, f"{name}.block.6", 0, 3, 1, 2)
    scale = net.parameter(f"{name}.layer_scale", (width, 1, 1), 1.0)
    square = BRANCH_GAIN**2 * tokens.square
    tokens = net.operator("Mul", (scale, tokens), f"{name}.mul", tokens.shape, square)
    return net.plus(tokens, x, f"{name}.add")


def _pixel_norm(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    """Add a norm over the channels of an image."""
    x = net.transpose(x, f"{name}.pixels", 0, 2, 3, 1)
    x = net.layer_norm(x, name, epsilon=EPSILON)
    return net.transpose(x, f"{name}.channels", 0, 3, 1, 2)


CONVNEXT_T = ConvNeXt(widths=(96, 192, 384, 768), blocks=(3, 3, 9, 3))
