"""Networks of attention, a layer or two each, as exporters write them."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from relay_int8.graph.dataflow import shape
from tests.small_networks import NetworkWriter

R = relax.op
TOKENS, CHANNELS, HEADS = 22, 24, 3


class AttentionWriter(NetworkWriter):
    """Writes layers over tokens."""

    def tokens(self, name: str, channels: int = CHANNELS) -> relax.Var:
        """Return the image as rows of channels: (1, tokens, channels)."""
        image = self.conv(f"{name}/image", self.x, channels, 3, padding=1, strides=2)
        flat = self.emit(f"{name}/flat", R.reshape(image, (1, channels, -1)))
        rows = self.emit(f"{name}/rows", R.permute_dims(flat, (0, 2, 1)))
        return self.emit(name, R.strided_slice(rows, [1], [0], [TOKENS]))

    def dense(self, name: str, x: relax.Var, outputs: int) -> relax.Var:
        """Bind a matrix product with bias."""
        inputs = shape(x)[-1]
        w = self.constant(inputs, outputs, scale=1.5 * inputs**-0.5)
        y = self.emit(f"{name}/matmul", R.matmul(x, w))
        return self.emit(name, R.add(y, self.constant(outputs, scale=0.3)))

    def scaled(self, name: str, x: relax.Var, factor: float) -> relax.Var:
        """Bind a product with a number."""
        return self.emit(name, R.multiply(x, relax.const(np.float32(factor))))

    def heads(
        self,
        name: str,
        x: relax.Var,
        axes: tuple[int, ...] = (0, 2, 1, 3),
        *,
        count: int = HEADS,
    ) -> relax.Var:
        """Split heads off the channels of (n, tokens, channels), and turn them outside."""
        n, tokens, channels = shape(x)
        cut = self.emit(f"{name}/cut", R.reshape(x, (n, tokens, count, channels // count)))
        return self.emit(name, R.permute_dims(cut, axes))

    def joined(self, name: str, x: relax.Var) -> relax.Var:
        """Join the heads of (n, heads, tokens, width)."""
        n, heads, tokens, width = shape(x)
        turned = self.emit(f"{name}/turned", R.permute_dims(x, (0, 2, 1, 3)))
        return self.emit(name, R.reshape(turned, (n, tokens, heads * width)))


def packed() -> tvm.IRModule:
    """Queries, keys and values in one tensor, a factor on either side, a guard against nan."""
    net = AttentionWriter()
    x = net.tokens("x0")
    whole = net.dense("qkv", x, 3 * CHANNELS)
    cut = net.emit("cut", R.reshape(whole, (1, TOKENS, 3, HEADS, CHANNELS // HEADS)))
    turned = net.emit("turned", R.permute_dims(cut, (2, 0, 3, 1, 4)))
    q, k, v = (
        net.emit(
            name,
            R.reshape(
                net.emit(f"{name}/part", R.strided_slice(turned, [0], [place], [place + 1])),
                (1, HEADS, TOKENS, CHANNELS // HEADS),
            ),
        )
        for place, name in enumerate("qkv")
    )
    k = net.emit("k/turned", R.permute_dims(k, (0, 1, 3, 2)))
    scores = net.emit("s", R.matmul(net.scaled("q/s", q, 0.6), net.scaled("k/s", k, 0.6)))
    shares = net.emit("p", R.nn.softmax(scores))
    zero = relax.const(np.float32(0))
    shares = net.emit("p/guarded", R.where(net.emit("p/nan", R.isnan(shares)), zero, shares))
    y = net.joined("y", net.emit("y/heads", R.matmul(shares, v)))
    last = net.dense("last", y, 10)
    return net.module(x, y, last)


def packed_norms() -> tvm.IRModule:
    """Queries, keys and values in one tensor; channels attend to channels, by way of norms."""
    net = AttentionWriter()
    x = net.tokens("x0")
    whole = net.dense("qkv", x, 3 * CHANNELS)
    depth = CHANNELS // HEADS
    cut = net.emit("cut", R.reshape(whole, (1, TOKENS, 3, HEADS, depth)))
    turned = net.emit("turned", R.permute_dims(cut, (2, 0, 3, 4, 1)))
    ones = relax.const(np.ones(TOKENS, np.float32))
    q, k, v = (
        net.emit(
            name,
            R.reshape(
                net.emit(f"{name}/part", R.strided_slice(turned, [0], [place], [place + 1])),
                (1, HEADS, depth, TOKENS),
            ),
        )
        for place, name in enumerate("qkv")
    )
    q, k = (net.emit(f"{n}/norm", R.nn.rms_norm(y, ones)) for n, y in (("q", q), ("k", k)))
    k = net.emit("k/turned", R.permute_dims(k, (0, 1, 3, 2)))
    shares = net.emit("p", R.nn.softmax(net.emit("s", R.matmul(q, k))))
    rows = net.emit("y/heads", R.matmul(shares, v))
    y = net.emit("y", R.reshape(net.emit("y/turned", R.permute_dims(rows, (0, 3, 1, 2))), shape(x)))
    return net.module(x, y, net.dense("last", y, 10))


def behind_tokens() -> tvm.IRModule:
    """Images behind tokens, and heads joined to images, as PyTorch's transformers have them."""
    net = AttentionWriter()
    x = net.emit("turned", R.permute_dims(net.tokens("x0"), (1, 0, 2)))
    q, k, v = (
        net.emit(
            f"{name}/h",
            R.permute_dims(
                net.emit(
                    f"{name}/c",
                    R.reshape(net.dense(name, x, CHANNELS), (TOKENS, HEADS, CHANNELS // HEADS)),
                ),
                (1, 2, 0) if name == "k" else (1, 0, 2),
            ),
        )
        for name in "qkv"
    )
    shares = net.emit("p", R.nn.softmax(net.scaled("s", net.emit("s/qk", R.matmul(q, k)), 0.4)))
    y = net.emit("y/turned", R.permute_dims(net.emit("y/heads", R.matmul(shares, v)), (1, 0, 2)))
    rows = net.dense("rows", net.emit("y", R.reshape(y, (TOKENS, CHANNELS))), 10)
    whole = net.emit("whole", R.reshape(rows, (TOKENS, 1, 10)))
    return net.module(net.emit("last", R.permute_dims(whole, (1, 0, 2))))


def windows() -> tvm.IRModule:
    """Windows of tokens with a factor and a bias for each head, and a mask for each window."""
    net = AttentionWriter()
    x = net.emit("x0", R.reshape(net.tokens("image"), (2, TOKENS // 2, CHANNELS)))
    q, k, v = (net.heads(f"{name}/h", net.dense(name, x, CHANNELS)) for name in "qkv")
    k = net.emit("k/turned", R.permute_dims(k, (0, 1, 3, 2)))
    scores = net.emit("s", R.matmul(net.scaled("q/s", q, 0.35), k))
    size = TOKENS // 2
    warmth = relax.const(np.linspace(0.5, 1.5, HEADS).astype(np.float32).reshape(HEADS, 1, 1))
    scores = net.emit("s/warm", R.multiply(scores, warmth))
    biased = net.emit("s/biased", R.add(scores, net.constant(1, HEADS, size, size)))
    split = net.emit("s/split", R.reshape(biased, (1, 2, HEADS, size, size)))
    cut = np.where(np.arange(size) < 7, 0, -100).astype(np.float32)
    mask = np.stack([np.zeros((size, size)), cut[:, None] * cut / 100]).astype(np.float32)
    masked = net.emit("s/masked", R.add(split, relax.const(mask.reshape(1, 2, 1, size, size))))
    scores = net.emit("s/whole", R.reshape(masked, shape(scores)))
    y = net.joined("y", net.emit("y/heads", R.matmul(net.emit("p", R.nn.softmax(scores)), v)))
    return net.module(x, y, net.dense("last", y, 10))


def causal() -> tvm.IRModule:
    """Heads as the only leading axis; each token sees those before it."""
    net = AttentionWriter()
    x = net.tokens("x0")
    rows = net.emit("rows", R.reshape(x, (TOKENS, CHANNELS)))
    depth = CHANNELS // HEADS
    q, k, v = (
        net.emit(
            f"{name}/h",
            R.permute_dims(
                net.emit(
                    f"{name}/c", R.reshape(net.dense(name, rows, CHANNELS), (TOKENS, HEADS, depth))
                ),
                (1, 2, 0) if name == "k" else (1, 0, 2),
            ),
        )
        for name in "qkv"
    )
    scores = net.emit("s", R.matmul(q, k))
    scores = net.emit("s/scaled", R.divide(scores, relax.const(np.float32(depth**0.5))))
    past = relax.const(np.tril(np.ones((1, TOKENS, TOKENS), bool)))
    scores = net.emit("s/past", R.where(past, scores, relax.const(np.float32(-1e9))))
    y = net.emit("y/heads", R.matmul(net.emit("p", R.nn.softmax(scores)), v))
    y = net.emit("y/turned", R.permute_dims(y, (1, 0, 2)))
    y = net.emit("y", R.reshape(y, (TOKENS, CHANNELS)))
    return net.module(x, y, net.dense("last", y, 10))


def crossed() -> tvm.IRModule:
    """A mask that is computed; fewer queries than keys; attention is a result itself."""
    net = AttentionWriter()
    x = net.tokens("x0")
    mask = net.emit("mask/cut", R.strided_slice(net.x, [1, 2, 3], [0, 0, 0], [1, 2, 11]))
    mask = net.emit("mask", R.reshape(mask, (1, 1, 1, TOKENS)))
    few = net.emit("few", R.strided_slice(x, [1], [3], [8]))
    q = net.heads("q/h", net.dense("q", few, CHANNELS))
    k = net.heads("k/h", net.dense("k", x, CHANNELS), (0, 2, 3, 1))
    v = net.heads("v/h", net.dense("v", x, 2 * CHANNELS))
    scores = net.emit("s/masked", R.add(net.emit("s", R.matmul(q, k)), mask))
    y = net.joined("y", net.emit("y/heads", R.matmul(net.emit("p", R.nn.softmax(scores)), v)))
    return net.module(net.dense("other", x, 9), y)


def biased(*, constant_first: bool) -> tvm.IRModule:
    """A mask that is computed and one that is constant, as of relative positions and the past."""
    net = AttentionWriter()
    x = net.tokens("x0")
    bias = net.emit("bias/cut", R.strided_slice(net.x, [1, 2, 3], [0, 0, 0], [1, 2, 11]))
    bias = net.emit("bias", R.reshape(bias, (1, 1, 1, TOKENS)))
    q, v = (net.heads(f"{name}/h", net.dense(name, x, CHANNELS)) for name in "qv")
    k = net.heads("k/h", net.dense("k", x, CHANNELS), (0, 2, 3, 1))
    past = np.triu(np.full((TOKENS, TOKENS), -1e9, np.float32), 1)
    masks = [bias, relax.const(past)]
    first, second = masks[::-1] if constant_first else masks
    scores = net.emit("s/first", R.add(net.emit("s", R.matmul(q, k)), first))
    scores = net.emit("s/second", R.add(scores, second))
    y = net.joined("y", net.emit("y/heads", R.matmul(net.emit("p", R.nn.softmax(scores)), v)))
    return net.module(x, y, net.dense("last", y, 10))


def channels_first() -> tvm.IRModule:
    """Queries, keys and values of images, a bias, values by turned shares; as LeViT has it."""
    net = AttentionWriter()
    x = net.conv("x0", net.x, CHANNELS, 3, padding=1, strides=2)
    *_, height, width = shape(x)
    pixels = height * width
    cut = (1, HEADS, CHANNELS // HEADS, pixels)
    q, k, v = (net.emit(f"{n}/h", R.reshape(net.conv(n, x, CHANNELS, 1), cut)) for n in "qkv")
    turned = net.emit("q/turned", R.permute_dims(q, (0, 1, 3, 2)))
    scores = net.scaled("s", net.emit("s/product", R.matmul(turned, k)), 0.4)
    scores = net.emit("s/biased", R.add(scores, net.constant(1, HEADS, pixels, pixels)))
    shares = net.emit("p", R.nn.softmax(scores))
    shares = net.emit("p/turned", R.permute_dims(shares, (0, 1, 3, 2)))
    rows = net.emit("y/heads", R.matmul(v, shares))
    image = net.emit("y", R.reshape(rows, (1, CHANNELS, height, width)))
    return net.module(image, net.conv("last", image, 10, 1))


def linear() -> tvm.IRModule:
    """Products of two activations without a softmax: keys by values, then queries by that."""
    net = AttentionWriter()
    x = net.tokens("x0")
    q, v = (net.heads(f"{name}/h", net.dense(name, x, CHANNELS)) for name in "qv")
    k = net.heads("k/h", net.dense("k", x, CHANNELS), (0, 2, 3, 1))
    context = net.emit("context", R.matmul(k, v))
    y = net.joined("y", net.emit("y/heads", R.matmul(q, context)))
    return net.module(x, y, net.dense("last", y, 10))


def multi_query() -> tvm.IRModule:
    """One head of keys and values, broadcast to all heads of queries, as in Falcon."""
    net = AttentionWriter()
    x = net.tokens("x0")
    width = CHANNELS // HEADS
    q = net.heads("q/h", net.dense("q", x, CHANNELS))
    k, v = (
        net.emit(f"{n}/h", R.reshape(net.dense(n, x, width), (1, 1, TOKENS, width))) for n in "kv"
    )
    k = net.emit("k/turned", R.permute_dims(k, (0, 1, 3, 2)))
    scores = net.scaled("s/scaled", net.emit("s", R.matmul(q, k)), 0.4)
    y = net.joined("y", net.emit("y/heads", R.matmul(net.emit("p", R.nn.softmax(scores)), v)))
    return net.module(y, net.dense("last", y, 10))


NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {
    "multi_query": multi_query,
    "packed": packed,
    "windows": windows,
    "causal": causal,
    "crossed": crossed,
    "linear": linear,
}
