"""Blocks of transformers, as PyTorch's exporter decomposes them.

Scaled dot product attention comes out with its scale's root on both factors, and, with a mask that
is boolean, with a guard against rows that see nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.zoo.tokens import ATTENDED, LOWEST, SHARPNESS, TokenNetwork, Tokens

BRANCH_GAIN = 0.5  # trained residual branches are weaker than what they are added to
Activation = Callable[[TokenNetwork, Tokens, str], Tokens]


def split_heads(net: TokenNetwork, x: Tokens, name: str, heads: int) -> Tokens:
    """Return (batch, tokens, channels) as (batch, tokens, heads, channels of a head)."""
    batch, tokens, channels = x.shape
    return net.reshape(x, f"{name}.view", (batch, tokens, heads, channels // heads))


def merge_heads(net: TokenNetwork, x: Tokens, name: str) -> Tokens:
    """Return (batch, heads, tokens, channels of a head) as (batch, tokens, channels)."""
    batch, heads, tokens, channels = x.shape
    x = net.transpose(x, f"{name}.permute", 0, 2, 1, 3)
    return net.reshape(x, f"{name}.merged", (batch, tokens, heads * channels))


def separate_heads(
    net: TokenNetwork, x: Tokens, context: Tokens, name: str, heads: int
) -> tuple[Tokens, Tokens, Tokens]:
    """Return queries of ``x``, keys and values of ``context``: a dense layer for each."""
    width = x.shape[-1]
    q, k, v = (
        net.linear(tokens, f"{name}.{part}", width, gain=gain)
        for part, tokens, gain in (
            ("query", x, SHARPNESS),
            ("key", context, 1),
            ("value", context, 1),
        )
    )
    q, k, v = (
        net.transpose(split_heads(net, part, part.name, heads), f"{part.name}.heads", 0, 2, 1, 3)
        for part in (q, k, v)
    )
    return q, k, v


def transposed_keys(net: TokenNetwork, k: Tokens, name: str) -> Tokens:
    """Exchange the last two axes through three, as ``scaled_dot_product_attention`` does."""
    batch, heads, tokens, channels = k.shape
    k = net.reshape(k, f"{name}.key.flat", (batch * heads, tokens, channels))
    k = net.transpose(k, f"{name}.key.transposed", 0, 2, 1)
    return net.reshape(k, f"{name}.key.unflat", (batch, heads, channels, tokens))


def attend(
    net: TokenNetwork,
    q: Tokens,
    k: Tokens,
    v: Tokens,
    name: str,
    *,
    mask: Tokens | None = None,
    scale_shape: tuple[int, ...] = (),
) -> Tokens:
    """Add scaled dot product attention.

    Parameters
    ----------
    q, v
        Shape (batch, heads, tokens, channels).
    k
        Shape (batch, heads, channels, tokens).
    mask
        What is added to the scores; :func:`masked` makes it.
    scale_shape
        Of the scale's root; torchvision's has an extent of 1.
    """
    root = q.shape[-1] ** -0.25
    q = net.times(q, f"{name}.query.scaled", root, scale_shape)
    k = net.times(k, f"{name}.key.scaled", root, scale_shape)
    p = net.product(q, k, f"{name}.scores", SHARPNESS**2)
    if mask is not None:
        p = net.operator("Add", (p, mask), f"{name}.masked", p.shape)
    p = net.softmax(p, f"{name}.softmax")
    if mask is not None:
        p = _guarded(net, p, name)
    return net.product(p, v, f"{name}.attended", ATTENDED * v.square)


def attention_of_layers(
    net: TokenNetwork,
    x: Tokens,
    name: str,
    heads: int,
    *,
    context: Tokens | None = None,
    mask: Tokens | None = None,
    projections: str | None = None,
    output: str | None = None,
) -> Tokens:
    """Add attention over (batch, tokens, channels) with four dense layers, as Hugging Face has it.

    Parameters
    ----------
    context
        What keys and values are made of; ``x`` by default.
    mask
        As of :func:`attend`.
    projections, output
        Names of the first three layers, before ``.query`` and so on, and of the last one.
    """
    q, k, v = separate_heads(net, x, x if context is None else context, projections or name, heads)
    y = attend(net, q, transposed_keys(net, k, name), v, name, mask=mask)
    y = merge_heads(net, y, name)
    return net.linear(y, output or f"{name}.out", x.shape[-1], gain=BRANCH_GAIN)


def masked(net: TokenNetwork, allowed: Tokens, name: str) -> Tokens:
    """Return zeros where a boolean mask is true, else the lowest number."""
    zero = net.constant(f"{name}.zero", np.array(0, np.float32))
    lowest = net.constant(f"{name}.lowest", np.array(LOWEST, np.float32))
    return net.operator("Where", (allowed, zero, lowest), name, allowed.shape)


def _guarded(net: TokenNetwork, p: Tokens, name: str) -> Tokens:
    nothing = net.operator("IsNaN", (p,), f"{name}.isnan", p.shape)
    zero = net.constant(f"{name}.isnan.zero", np.array(0, np.float32))
    return net.operator("Where", (nothing, zero, p), f"{name}.guarded", p.shape, p.square)


def perceptron(
    net: TokenNetwork,
    x: Tokens,
    names: tuple[str, str],
    hidden: int,
    activation: Activation = TokenNetwork.gelu,
) -> Tokens:
    """Add two dense layers with an activation in between."""
    width = x.shape[-1]
    x = net.linear(x, names[0], hidden)
    x = activation(net, x, f"{names[0]}.activation")
    return net.linear(x, names[1], width, gain=BRANCH_GAIN)
