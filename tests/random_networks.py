"""Networks of operators drawn at random: any order of what convolutional networks are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import shape
from tests.small_networks import NetworkWriter, nn

op = relax.op
LAYERS = 9


class _Drawn:
    """Draws one operator after the other; each reads tensors that were written before."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.net = NetworkWriter((1, 3, int(self.rng.integers(6, 14)), 8), seed)
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
