"""Networks of operators drawn at random: any order of what networks for images are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import shape
from tests.attention_networks import AttentionWriter
from tests.small_networks import nn

op = relax.op
LAYERS = 9


class _Drawn:
    """Draws one operator after the other; each reads tensors that were written before."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.net = AttentionWriter((1, 3, int(self.rng.integers(6, 14)), 8), seed)
        self.tensors = [self.net.relu("first", self.net.conv("first/bias", self.net.x, 8, 3))]
        self.count = 0

    def draw(self) -> None:
        """Write an operator that fits one of the last tensors."""
        x = self.tensors[int(self.rng.integers(max(len(self.tensors) - 3, 0), len(self.tensors)))]
        kinds: Sequence[Callable[[str, relax.Var], relax.Expr]] = (
            self.convolution,
            self.convolution,
            self.depthwise,
            self.transposed,
            self.activation,
            self.pool,
            self.pad,
            self.shuffle,
            self.resize,
            self.sum,
            self.concat,
            self.gate,
            self.part,
            self.grouped,
            self.strided,
            self.norm,
            self.tokens,
            self.attention,
            self.crop,
            self.blocks,
            self.affine,
            self.product,
            self.spread,
        )
        kind = kinds[int(self.rng.integers(len(kinds)))]
        self.count += 1
        name = f"{kind.__name__}{self.count}"
        self.tensors.append(self.net.emit(name, kind(name, x)))

    def convolution(self, name: str, x: relax.Var) -> relax.Expr:
        kernel = int(self.rng.choice([1, 3]))
        channels = int(self.rng.choice([4, 6, 8, 12]))
        y = self.net.conv(f"{name}/y", x, channels, kernel, padding=kernel // 2)
        return nn.relu(y) if self.rng.random() < 0.5 else op.add(y, self.net.constant(1, 1, 1, 1))

    def depthwise(self, name: str, x: relax.Var) -> relax.Expr:
        channels = shape(x)[1]
        y = self.net.conv(f"{name}/y", x, channels, 3, padding=1, groups=channels)
        return op.clip(y, 0.0, 6.0)

    def transposed(self, name: str, x: relax.Var) -> relax.Expr:
        if max(shape(x)[2:]) > 16:
            return nn.relu(x)
        return nn.relu(self.net.deconv(f"{name}/y", x, 6, 2, strides=2))

    def activation(self, name: str, x: relax.Var) -> relax.Expr:
        functions = (nn.silu, op.sigmoid, op.tanh, nn.gelu, lambda t: nn.leakyrelu(t, 0.1), nn.relu)
        return functions[int(self.rng.integers(len(functions)))](x)

    def pool(self, name: str, x: relax.Var) -> relax.Expr:
        pool = nn.max_pool2d if self.rng.random() < 0.5 else nn.avg_pool2d
        if min(shape(x)[2:]) < 4:
            return pool(x, pool_size=3, padding=1)
        return pool(x, pool_size=2, strides=2)

    def pad(self, name: str, x: relax.Var) -> relax.Expr:
        return nn.pad(x, [0, 0, 0, 0, 1, 0, 0, 1], pad_value=float(self.rng.choice([0.0, 0.5])))

    def shuffle(self, name: str, x: relax.Var) -> relax.Expr:
        n, c, h, w = shape(x)
        cut = self.net.emit(f"{name}/cut", op.reshape(x, (n, 2, c // 2, h, w)))
        turned = self.net.emit(f"{name}/turned", op.permute_dims(cut, (0, 2, 1, 3, 4)))
        return op.reshape(turned, (n, c, h, w))

    def resize(self, name: str, x: relax.Var) -> relax.Expr:
        h, w = shape(x)[2:]
        size = (min(h + 3, 20), min(w + 2, 20))
        return self.net.resized(f"{name}/y", x, size, "half_pixel")

    def sum(self, name: str, x: relax.Var) -> relax.Expr:
        alike = [y for y in self.tensors if shape(y) == shape(x)]
        other = alike[int(self.rng.integers(len(alike)))]
        return op.add(x, other) if self.rng.random() < 0.7 else op.maximum(x, other)

    def concat(self, name: str, x: relax.Var) -> relax.Expr:
        beside = [y for y in self.tensors if shape(y)[2:] == shape(x)[2:]][:3]
        joined = self.net.emit(f"{name}/y", op.concat([x, *beside], axis=1))
        return self.net.conv(f"{name}/z", joined, 8, 1)

    def gate(self, name: str, x: relax.Var) -> relax.Expr:
        mean = self.net.emit(f"{name}/mean", nn.avg_pool2d(x, pool_size=shape(x)[2:]))
        gate = self.net.emit(
            f"{name}/gate", op.sigmoid(self.net.conv(f"{name}/y", mean, shape(x)[1], 1))
        )
        return op.multiply(gate, x)

    def part(self, name: str, x: relax.Var) -> relax.Expr:
        return op.strided_slice(x, [1], [0], [shape(x)[1] // 2 // 2 * 2 or 2])

    def grouped(self, name: str, x: relax.Var) -> relax.Expr:
        channels = shape(x)[1]
        return self.net.conv(f"{name}/y", x, channels, 3, padding=1, groups=channels // 2)

    def strided(self, name: str, x: relax.Var) -> relax.Expr:
        """Write a window of any size with any padding."""
        if min(shape(x)[2:]) < 5:
            return nn.relu(x)
        size, stride = (int(self.rng.choice(sizes)) for sizes in ([1, 2, 3, 5], [1, 2]))
        padding = tuple(int(pixels) for pixels in self.rng.integers(0, 3, 4))
        return self.net.conv(f"{name}/y", x, 10, size, strides=stride, padding=padding)

    def norm(self, name: str, x: relax.Var) -> relax.Expr:
        channels = shape(x)[1]
        gamma, beta = self.net.constant(channels), self.net.constant(channels)
        if self.rng.random() < 0.5:
            return nn.group_norm(x, gamma, beta, num_groups=2, channel_axis=1, axes=[2, 3])
        last = self.net.emit(f"{name}/last", op.permute_dims(x, (0, 2, 3, 1)))
        y = self.net.emit(f"{name}/y", nn.layer_norm(last, gamma, beta, axes=[-1]))
        return op.permute_dims(y, (0, 3, 1, 2))

    def tokens(self, name: str, x: relax.Var) -> relax.Expr:
        """Write the two dense layers of a transformer's block."""
        tokens = self._as_tokens(name, x)
        wide = self.net.emit(f"{name}/gelu", nn.gelu(self.net.dense(f"{name}/wide", tokens, 12)))
        return self._as_image(name, self.net.dense(f"{name}/narrow", wide, 8), x)

    def attention(self, name: str, x: relax.Var) -> relax.Expr:
        """Write attention of two heads, with the tokens themselves added or not."""
        net, tokens, channels = self.net, self._as_tokens(name, x), shape(x)[1]
        q, k, v = (
            net.heads(f"{part}/heads", net.dense(part, tokens, channels), axes, count=2)
            for part, axes in (
                (f"{name}/q", (0, 2, 1, 3)),
                (f"{name}/k", (0, 2, 3, 1)),
                (f"{name}/v", (0, 2, 1, 3)),
            )
        )
        scores = net.emit(f"{name}/scores", op.matmul(q, k))
        scaled = net.scaled(f"{name}/scaled", scores, (channels // 2) ** -0.5)
        shares = net.emit(f"{name}/shares", nn.softmax(scaled, axis=-1))
        joined = net.joined(f"{name}/joined", net.emit(f"{name}/y", op.matmul(shares, v)))
        out = net.dense(f"{name}/out", joined, channels)
        if self.rng.random() < 0.5:
            out = net.emit(f"{name}/added", op.add(out, tokens))
        return self._as_image(name, out, x)

    def crop(self, name: str, x: relax.Var) -> relax.Expr:
        return op.strided_slice(x, [2], [min(1, shape(x)[2] - 1)], [shape(x)[2]])

    def blocks(self, name: str, x: relax.Var) -> relax.Expr:
        """Write squares of pixels as channels."""
        n, c, h, w = shape(x)
        if h % 2 or w % 2 or c > 16:
            return nn.relu(x)
        cut = self.net.emit(f"{name}/cut", op.reshape(x, (n, c, h // 2, 2, w // 2, 2)))
        turned = self.net.emit(f"{name}/turned", op.permute_dims(cut, (0, 3, 5, 1, 2, 4)))
        return op.reshape(turned, (n, 4 * c, h // 2, w // 2))

    def affine(self, name: str, x: relax.Var) -> relax.Expr:
        channels = (1, shape(x)[1], 1, 1)
        scaled = self.net.emit(f"{name}/scaled", op.multiply(x, self.net.constant(*channels)))
        return op.subtract(scaled, self.net.constant(*channels))

    def product(self, name: str, x: relax.Var) -> relax.Expr:
        """Write a product, a difference or a minimum, of a tensor with itself too."""
        alike = [y for y in self.tensors if shape(y) == shape(x)]
        other = alike[int(self.rng.integers(len(alike)))]
        return (op.multiply, op.subtract, op.minimum)[int(self.rng.integers(3))](x, other)

    def spread(self, name: str, x: relax.Var) -> relax.Expr:
        """Write the sum with a mean over pixels, or with a maximum over channels."""
        if self.rng.random() < 0.5:
            return op.add(x, self.net.emit(f"{name}/mean", op.mean(x, [2, 3], keepdims=True)))
        return op.add(x, self.net.emit(f"{name}/max", op.max(x, [1], keepdims=True)))

    def _as_tokens(self, name: str, x: relax.Var) -> relax.Var:
        n, c, h, w = shape(x)
        rows = self.net.emit(f"{name}/rows", op.reshape(x, (n, c, h * w)))
        return self.net.emit(f"{name}/tokens", op.permute_dims(rows, (0, 2, 1)))

    def _as_image(self, name: str, tokens: relax.Var, like: relax.Var) -> relax.Expr:
        rows = self.net.emit(f"{name}/back", op.permute_dims(tokens, (0, 2, 1)))
        n, _, h, w = shape(like)
        return op.reshape(rows, (n, shape(tokens)[-1], h, w))


def random_network(seed: int) -> tvm.IRModule:
    """Return a network of two outputs: what was written last, and a dense layer of what is under it."""
    drawn = _Drawn(seed)
    for _ in range(LAYERS):
        drawn.draw()
    net, x = drawn.net, drawn.tensors[-2]
    mean = net.emit("mean", nn.avg_pool2d(x, pool_size=shape(x)[2:]))
    flat = net.emit("flat", op.reshape(mean, (1, shape(x)[1])))
    y = net.emit("y/product", op.matmul(flat, net.constant(shape(x)[1], 5)))
    dense = net.emit("y", op.add(y, net.constant(5)))
    return normalize()(net.module(net.conv("map", drawn.tensors[-1], 4, 1), dense))
