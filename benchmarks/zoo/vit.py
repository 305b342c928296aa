"""Vision transformers (Dosovitskiy et al. 2020, Touvron et al. 2021).

Two ways to write one: torchvision's, whose multi-head attention has its tokens first and one layer
for queries, keys and values, and that of Hugging Face, with a layer for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.zoo.attention import (
    BRANCH_GAIN,
    attend,
    attention_of_layers,
    masked,
    perceptron,
)
from benchmarks.zoo.tokens import SHARPNESS, TokenNetwork, Tokens


@dataclass(frozen=True, kw_only=True)
class ViT:
    """A vision transformer with a class token, as torchvision writes it.

    Attributes
    ----------
    patch
        Height and width of what becomes one token.
    width, hidden
        Channels of a token, and inside of the perceptrons.
    blocks, heads
        Blocks of attention and perceptron, and heads of each attention.
    channels
        Of the image.
    """

    patch: int
    width: int
    hidden: int
    blocks: int
    heads: int
    channels: int = 3
    size: int = 224
    opset: int = 18
    classes: int = 1000
    epsilon: float = 1e-6

    def narrow(self) -> ViT:
        """Return the same with two narrow blocks."""
        return replace(self, width=64, hidden=128, blocks=2, heads=2)

    def write(self, net: TokenNetwork, size: int, classes: int) -> Tokens:
        """Add the network and return its logits."""
        image = net.input(self.channels, size)
        x = net.conv(image, "conv_proj", self.width, self.patch, stride=self.patch, bias=True)
        patches = x.height * x.width
        tokens = net.reshape(net.unpacked(x), "view", (net.batch, self.width, patches))
        tokens = self._embedded(net, net.transpose(tokens, "permute", 0, 2, 1))
        shared = self.prepare(net, patches + 1)
        for block in range(self.blocks):
            tokens = self._block(net, tokens, f"encoder.layers.{block}", shared)
        tokens = net.layer_norm(tokens, "encoder.ln", epsilon=self.epsilon)
        return net.gemm(net.take(tokens, "class", 1, 0), "heads.head", classes)

    def prepare(self, _net: TokenNetwork, _tokens: int) -> Tokens | None:
        """Add what all blocks have in common."""
        return None

    def attention(self, net: TokenNetwork, x: Tokens, name: str, _shared: Tokens | None) -> Tokens:
        """Add attention over (batch, tokens, width), tokens first inside."""
        batch, tokens, width = x.shape
        channels = width // self.heads
        x = net.transpose(x, f"{name}.tokens_first", 1, 0, 2)
        x = net.linear(x, f"{name}.in_proj", 3 * width, gain=SHARPNESS**0.5)
        x = net.reshape(x, f"{name}.parts", (tokens, batch, 3, width))
        axes = net.constant(f"{name}.unsqueeze.axes", np.array([0], np.int64))
        x = net.operator("Unsqueeze", (x, axes), f"{name}.unsqueeze", (1, *x.shape))
        x = net.transpose(x, f"{name}.parts_first", 3, 1, 2, 0, 4)
        axes = net.constant(f"{name}.squeeze.axes", np.array([-2], np.int64))
        x = net.operator("Squeeze", (x, axes), f"{name}.squeeze", (3, tokens, batch, width))
        q, k, v = (net.take(x, f"{name}.{part}", 0, index) for index, part in enumerate("qkv"))
        q, k, v = (
            net.reshape(part, f"{part.name}.view", (tokens, batch * self.heads, channels))
            for part in (q, k, v)
        )
        q, k, v = (net.transpose(part, f"{part.name}.heads", 1, 0, 2) for part in (q, k, v))
        heads = (batch, self.heads, tokens, channels)
        q, v = (net.reshape(part, f"{part.name}.batch", heads) for part in (q, v))
        k = net.transpose(k, f"{k.name}.transposed", 0, 2, 1)
        k = net.reshape(k, f"{k.name}.batch", (batch, self.heads, channels, tokens))
        y = attend(net, q, k, v, name, scale_shape=(1,))
        y = net.transpose(y, f"{name}.permute", 2, 0, 1, 3)
        y = net.reshape(y, f"{name}.rows", (tokens * batch, width))
        y = net.gemm(y, f"{name}.out_proj", width, gain=BRANCH_GAIN)
        y = net.reshape(y, f"{name}.unrows", (tokens, batch, width))
        return net.transpose(y, f"{name}.batch_first", 1, 0, 2)

    def _embedded(self, net: TokenNetwork, x: Tokens) -> Tokens:
        token = net.parameter("class_token", (1, 1, self.width), 1.0)
        if net.batch > 1:
            shape = net.constant("class_token.shape", np.array([net.batch, 1, self.width]))
            token = net.operator("Expand", (token, shape), "expand", (net.batch, 1, self.width))
        x = net.join([token, x], "cat", 1)
        return net.plus(x, net.parameter("pos_embedding", (1, *x.shape[1:]), 0.5), "embedded")

    def _block(self, net: TokenNetwork, x: Tokens, name: str, shared: Tokens | None) -> Tokens:
        y = net.layer_norm(x, f"{name}.ln_1", epsilon=self.epsilon)
        x = net.plus(self.attention(net, y, f"{name}.self_attention", shared), x, f"{name}.add_1")
        y = net.layer_norm(x, f"{name}.ln_2", epsilon=self.epsilon)
        y = perceptron(net, y, (f"{name}.mlp.0", f"{name}.mlp.3"), self.hidden)
        return net.plus(x, y, f"{name}.add_2")


@dataclass(frozen=True, kw_only=True)
class HuggingFaceViT(ViT):
    """A vision transformer as Hugging Face writes it: its mask lets every token see every other."""

    opset: int = 20
    epsilon: float = 1e-12

    def prepare(self, net: TokenNetwork, tokens: int) -> Tokens:
        """Add the mask."""
        allowed = net.constant("allowed", np.ones((net.batch, 1, tokens, tokens), np.bool_))
        return masked(net, allowed, "mask")

    def attention(self, net: TokenNetwork, x: Tokens, name: str, shared: Tokens | None) -> Tokens:
        """Add attention over (batch, tokens, width)."""
        return attention_of_layers(net, x, name, self.heads, mask=shared)


VIT_B_32 = ViT(patch=32, width=768, hidden=3072, blocks=12, heads=12)
VIT_S_16 = HuggingFaceViT(patch=16, width=384, hidden=1536, blocks=12, heads=6)
