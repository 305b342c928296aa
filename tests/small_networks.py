"""Float networks in canonical form, small enough for any test; each exercises what its name says."""

from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import FunctionWriter, shape
from relay_int8.graph.plan import Plan
from relay_int8.numerics.qparams import QParams, activation

nn = relax.op.nn


class NetworkWriter:
    """Writes a float network layer by layer, with seeded weights."""

    def __init__(self, input_shape: tuple[int, ...] = (1, 3, 12, 11), seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)
        self._writer = FunctionWriter()
        self.x = relax.Var("x", relax.TensorType(input_shape, "float32"))

    def emit(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind one operator."""
        return self._writer.emit(name, value)

    def constant(self, *dims: int, scale: float = 1.0) -> relax.Expr:
        """Return random float32 numbers."""
        return relax.const(self._rng.normal(scale=scale, size=dims).astype("float32"))

    def conv(
        self, name: str, x: relax.Var, channels: int, kernel: int | tuple[int, int], **attrs: object
    ) -> relax.Var:
        """Bind a convolution with bias."""
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        inputs = shape(x)[1] // int(attrs.get("groups", 1))
        w = self.constant(channels, inputs, *size, scale=(inputs * size[0] * size[1]) ** -0.5)
        y = self.emit(f"{name}/conv", nn.conv2d(x, w, **attrs))
        return self.emit(name, relax.op.add(y, self.constant(1, channels, 1, 1, scale=0.3)))

    def deconv(
        self, name: str, x: relax.Var, channels: int, kernel: int, **attrs: object
    ) -> relax.Var:
        """Bind a transposed convolution with bias."""
        inputs, groups = shape(x)[1], int(attrs.get("groups", 1))
        w = self.constant(inputs, channels // groups, kernel, kernel, scale=inputs**-0.5 / 2)
        y = self.emit(f"{name}/conv", nn.conv2d_transpose(x, w, **attrs))
        return self.emit(name, relax.op.add(y, self.constant(1, channels, 1, 1, scale=0.3)))

    def resized(
        self, name: str, x: relax.Var, size: tuple[int, int], coordinates: str
    ) -> relax.Var:
        """Bind a bilinear resize."""
        return self.emit(
            name,
            relax.op.image.resize2d(
                x, size, method="linear", coordinate_transformation_mode=coordinates
            ),
        )

    def relu(self, name: str, x: relax.Var) -> relax.Var:
        """Bind a ReLU."""
        return self.emit(name, nn.relu(x))

    def module(self, *outputs: relax.Var) -> tvm.IRModule:
        """Return the network."""
        return self._writer.finish([self.x], outputs)


def residual() -> tvm.IRModule:
    """Two convolutions added, an identity shortcut, a global pooling, a dense layer."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 20, 3, padding=(0, 1, 1, 0), strides=2))
    b = net.conv("b", net.relu("b0", net.conv("b0/bias", a, 8, 1)), 20, 3, padding=1)
    c = net.conv("c", a, 20, 1)
    d = net.relu("d", net.emit("d/add", relax.op.add(b, c)))
    e = net.conv("e", d, 20, 3, padding=2, dilation=2)
    f = net.emit("f", relax.op.add(d, e))
    pool = net.emit("pool", nn.avg_pool2d(f, pool_size=shape(f)[2:]))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 20)))
    logits = net.emit("logits/matmul", relax.op.matmul(flat, net.constant(20, 7)))
    return net.module(net.emit("logits", relax.op.add(logits, net.constant(7))))


def branches() -> tvm.IRModule:
    """Concats of branches that share a scale and of one that cannot, pools, ragged channels."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, (1, 3), padding=(0, 1)))
    pool = net.emit("pool", nn.max_pool2d(a, pool_size=3, strides=2, padding=1))
    b = net.relu("b", net.conv("b/bias", pool, 5, 1))
    c = net.conv("c", pool, 16, 3, padding=1)
    mean = net.emit("mean", nn.avg_pool2d(pool, pool_size=3, padding=1, count_include_pad=False))
    d = net.emit("d", relax.op.concat([b, pool, c, mean], axis=1))
    e = net.conv("e", d, 24, 3, groups=1, padding=1)
    ceil = net.emit("ceil", nn.avg_pool2d(e, pool_size=2, strides=2, ceil_mode=True))
    return net.module(net.conv("f", ceil, 4, 1))


def dense_blocks() -> tvm.IRModule:
    """A dense block whose concats list every tensor, one whose concats nest, both read in between."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    parts = [net.emit("pool", nn.max_pool2d(a, pool_size=3, strides=2, padding=1))]
    for layer in range(3):
        y = net.emit(f"list{layer}", relax.op.concat(parts, axis=1)) if layer else parts[0]
        b = net.relu(f"b{layer}", net.conv(f"b{layer}/bias", y, 12, 1))
        parts.append(net.conv(f"new{layer}", b, 16, 3, padding=1))
    whole = net.emit("whole", relax.op.concat(parts, axis=1))
    nested = net.conv("c", whole, 16, 1)
    for layer in range(3):
        d = net.relu(f"d{layer}", net.conv(f"d{layer}/bias", nested, 16, 3, padding=1))
        nested = net.emit(f"nest{layer}", relax.op.concat([nested, d], axis=1))
    return net.module(net.conv("e", nested, 4, 1))


def depthwise() -> tvm.IRModule:
    """Depthwise, grouped and ragged-group convolutions, ReLU6, an inverted residual."""
    net = NetworkWriter()
    a = net.emit("a", relax.op.clip(net.conv("a/bias", net.x, 24, 3, strides=2, padding=1), 0, 6))
    dw = net.conv("dw/bias", a, 24, 3, padding=1, groups=24)
    dw = net.emit("dw", relax.op.clip(dw, 0, 6))
    p = net.conv("p", dw, 24, 1)
    s = net.emit("s", relax.op.add(p, net.conv("q", a, 24, 1)))
    g = net.relu("g", net.conv("g/bias", s, 32, 3, groups=4, padding=1))
    h = net.relu("h", net.conv("h/bias", g, 32, 3, groups=8, padding=1, strides=2))
    i = net.conv("i", h, 6, 3, groups=2)
    return net.module(i)


def moves() -> tvm.IRModule:
    """Pad, slice, transpose, reshape, nearest resize, each between convolutions."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 8, 3, padding=1))
    padded = net.emit("padded", nn.pad(a, (0, 0, 2, 2, 1, 0, 0, 3)))
    b = net.conv("b", padded, 6, 1)
    cut = net.emit("cut", relax.op.strided_slice(b, [2, 3], [0, 1], [13, 14], [2, 2]))
    c = net.relu("c", net.conv("c/bias", cut, 12, 3))
    up = net.emit(
        "up",
        relax.op.image.resize2d(
            c,
            (10, 10),
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
    )
    grouped = net.emit("grouped", relax.op.reshape(up, (1, 3, 4, 10, 10)))
    turned = net.emit("turned", relax.op.permute_dims(grouped, (0, 2, 1, 3, 4)))
    shuffled = net.emit("shuffled", relax.op.reshape(turned, (1, 12, 10, 10)))
    return net.module(net.conv("d", shuffled, 5, 3))


def activations() -> tvm.IRModule:
    """Leaky and PReLU in and outside of epilogues, tables, products, activations alone."""
    net = NetworkWriter()
    a = net.emit("a", nn.leakyrelu(net.conv("a/bias", net.x, 8, 3, padding=1), 0.1))
    slopes = relax.const(np.linspace(-0.2, 0.5, 8).astype("float32"))
    b = net.emit("b", nn.prelu(net.conv("b/bias", a, 8, 3, padding=1), slopes, axis=1))
    gate = net.emit("gate", relax.op.sigmoid(net.conv("gate/bias", b, 8, 1)))
    c = net.emit("c", relax.op.multiply(b, gate))
    squeezed = net.emit("squeezed", nn.avg_pool2d(c, pool_size=shape(c)[2:]))
    excite = net.emit("excite", relax.op.tanh(net.conv("excite/bias", squeezed, 8, 1)))
    d = net.emit("d", relax.op.multiply(c, excite))
    e = net.emit("e", nn.leakyrelu(d, 0.25))
    f = net.emit("f", nn.prelu(e, slopes, axis=1))
    g = net.relu("g", f)
    h = net.emit("h", nn.silu(g))
    return net.module(net.conv("i", h, 4, 1))


def functions() -> tvm.IRModule:
    """Hard-swish, SiLU (of channels with factors), hard-sigmoid, as exporters write them."""
    net = NetworkWriter()
    a = net.conv("a", net.x, 8, 3, padding=1)
    relu6 = net.emit(
        "relu6", relax.op.clip(net.emit("a3", relax.op.add(a, relax.const(3.0))), 0, 6)
    )
    product = net.emit("product", relax.op.multiply(a, relu6))
    hardswish = net.emit("hardswish", relax.op.divide(product, relax.const(6.0)))
    b = net.conv("b", hardswish, 12, 1)
    silu = net.emit("silu", relax.op.multiply(net.emit("gate", relax.op.sigmoid(b)), b))
    factors = relax.const(np.linspace(0.5, 2, 12).astype("float32").reshape(12, 1, 1))
    stretched = net.emit("stretched", relax.op.multiply(silu, factors))
    c = net.relu("c", net.conv("c/bias", stretched, 8, 3))
    scaled = net.emit("scaled", relax.op.multiply(relax.const(0.25), c))
    half = net.emit("half", relax.op.add(scaled, relax.const(0.5)))
    d = net.emit("d", relax.op.multiply(c, net.emit("hardsigmoid", relax.op.clip(half, 0, 1))))
    return net.module(net.conv("e", d, 4, 1))


def enlargements() -> tvm.IRModule:
    """Transposed convolutions: dense, grouped, dilated, of each channel; shuffles between them."""
    net = NetworkWriter((1, 3, 7, 6))
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.relu("b", net.deconv("b/bias", a, 32, 4, strides=2, padding=1))
    c = net.deconv("c", b, 12, 3, groups=2, strides=(2, 1), padding=1, output_padding=(1, 0))
    d = net.emit("d", nn.leakyrelu(net.deconv("d/bias", c, 12, 3, dilation=2, padding=1), 0.1))
    e = net.relu("e", net.deconv("e/bias", d, 12, 3, groups=12, strides=2))
    cut = net.emit("cut", relax.op.reshape(e, (1, 3, 4, *shape(e)[2:])))
    turned = net.emit("turned", relax.op.permute_dims(cut, (0, 2, 1, 3, 4)))
    shuffled = net.emit("shuffled", relax.op.reshape(turned, shape(e)))
    return normalize()(net.module(net.conv("f", shuffled, 4, 1)))


def pyramid() -> tvm.IRModule:
    """Bilinear resizes up and down, joined by concats; a gate that comes first in its product."""
    net = NetworkWriter((1, 3, 9, 10))
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, strides=2, padding=1))
    up = net.resized("up", a, (9, 10), "half_pixel")
    b = net.conv("b", net.emit("joined", relax.op.concat([up, net.x], axis=1)), 20, 3)
    down = net.resized("down", b, (4, 5), "align_corners")
    wide = net.resized("wide", down, (7, 13), "asymmetric")
    mean = net.emit("mean", nn.avg_pool2d(wide, pool_size=shape(wide)[2:]))
    gate = net.emit("gate", relax.op.sigmoid(net.conv("gate/bias", mean, 20, 1)))
    gated = net.emit("gated", relax.op.multiply(gate, wide))
    spread = net.resized("spread", net.conv("pooled", mean, 4, 1), (7, 13), "half_pixel")
    return net.module(
        net.conv("c", net.emit("all", relax.op.concat([gated, spread], axis=1)), 5, 1)
    )


def pairs() -> tvm.IRModule:
    """Differences, maxima and minima of two tensors; one operand broadcast, first or second."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.conv("b", a, 16, 3, padding=1)
    halves = [
        net.emit(f"half{i}", relax.op.strided_slice(b, [1], [8 * i], [8 * i + 8])) for i in (0, 1)
    ]
    maxout = net.emit("maxout", relax.op.maximum(*halves))
    c = net.conv("c", maxout, 16, 1)
    d = net.relu("d", net.emit("difference", relax.op.subtract(c, a)))
    mean = net.emit("mean", nn.avg_pool2d(d, pool_size=shape(d)[2:]))
    e = net.emit("e", relax.op.subtract(mean, c))
    f = net.emit("f", relax.op.subtract(e, mean))
    g = net.emit("g", relax.op.clip(net.emit("lesser", relax.op.minimum(e, f)), -1.5, 2))
    context = net.conv("context", mean, 16, 1)
    h = net.emit("h", relax.op.add(context, net.emit("greater", relax.op.maximum(g, context))))
    return net.module(net.conv("i", h, 4, 1))


def quotients() -> tvm.IRModule:
    """Quotients of two tensors; divisors that may be zero, one operand broadcast, first or second.

    Not among ``NETWORKS``: they have no fixed-point form, nor one that stays finite in float.
    """
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.conv("b", a, 16, 3, padding=1)
    c = net.emit("c", relax.op.divide(b, a))
    d = net.conv("d", c, 16, 1)
    mean = net.emit("mean", nn.avg_pool2d(a, pool_size=shape(a)[2:]))
    e = net.emit("e", relax.op.clip(net.emit("ratio", relax.op.divide(d, mean)), -1, 2))
    f = net.emit("f", relax.op.divide(net.conv("context", mean, 16, 1), b))
    g = net.emit("g", relax.op.divide(mean, a))
    h = net.emit("h", relax.op.concat([e, f, g], axis=1))
    return net.module(net.conv("i", h, 4, 1))


def bounds(join: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> tvm.IRModule:
    """Maxima or minima with constants: of channels, rows, columns, images; second or first."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 12, 3, padding=1))
    b = net.emit("b", join(a, net.constant(1, 12, 1, 1)))
    c = net.conv("c", b, 12, 3, padding=1)
    d = net.relu("d", net.emit("d/bound", join(net.constant(12, 12, 11), c)))
    e = net.emit("e", join(net.conv("e/in", d, 12, 1), net.constant(12, 1)))
    f = net.emit("f", relax.op.clip(net.emit("f/bound", join(c, net.constant(12, 11))), -1, 1.5))
    g = net.emit("g", join(net.conv("g/in", e, 12, 1), net.constant(1, 1, 1, 11)))
    h = net.emit("h", relax.op.concat([f, g], axis=1))
    i = net.emit("i", relax.op.permute_dims(net.conv("i/in", h, 12, 1), (0, 2, 3, 1)))
    j = net.emit("j", join(i, net.constant(12)))
    return net.module(net.emit("k", relax.op.matmul(j, net.constant(12, 4))))


def constants() -> tvm.IRModule:
    """Sums and products with constants of each channel, in chains, before and after activations."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 12, 3, padding=1))
    by_channel = [net.constant(1, 12, 1, 1) for _ in range(4)]
    centred = net.emit("centred", relax.op.subtract(a, by_channel[0]))
    b = net.emit("b", relax.op.divide(centred, by_channel[1]))
    c = net.conv("c", b, 12, 1)
    d = net.emit("d", relax.op.multiply(by_channel[2], net.relu("c/relu", c)))
    e = net.relu("e", net.emit("rest", relax.op.subtract(by_channel[3], d)))
    doubled = net.emit(
        "doubled", relax.op.add(net.emit("sum", relax.op.add(e, d)), net.constant(12, 1, 1))
    )
    f = net.emit("f", relax.op.multiply(doubled, relax.const(-0.75)))
    return net.module(net.conv("g", f, 4, 3))


def borders() -> tvm.IRModule:
    """Pads that mirror the image, repeat its edge or have a value, in front of convolutions."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 12, 3))
    mirrored = net.emit("mirrored", nn.pad(a, (0, 0, 0, 0, 1, 2, 3, 1), "reflect"))
    b = net.conv("b", mirrored, 6, 3)
    edges = net.emit("edges", nn.pad(b, (0, 0, 1, 0, 0, 3, 2, 2), "replicate"))
    c = net.emit("c", nn.pad(net.conv("c/pad", edges, 8, 3), (0, 0, 1, 1, 0, 0, 1, 0), "replicate"))
    grey = net.emit(
        "grey",
        nn.pad(net.relu("d0", net.conv("d", c, 4, 3)), (0, 0, 1, 0, 2, 1, 0, 1), "constant", -0.4),
    )
    pooled = net.emit("pooled", nn.max_pool2d(grey, pool_size=2))
    white = net.emit("white", nn.pad(pooled, (0, 0, 0, 0, 1, 1, 1, 1), "constant", 0.7))
    return net.module(net.conv("e", white, 4, 3))


def sums() -> tvm.IRModule:
    """PReLU and swish of a sum; ReLU, a slope, swish and a moved hard-swish in front."""
    net = NetworkWriter()
    x = net.relu("x0", net.conv("x0/bias", net.x, 20, 3, padding=1))
    a = relax.op.add(net.conv("a/conv", x, 20, 3, padding=1, groups=20), x)
    slopes = relax.const(np.linspace(-0.3, 0.6, 20, dtype=np.float32))
    y = net.emit("prelu", nn.prelu(net.emit("a", a), slopes))
    b = net.emit("b", relax.op.add(y, net.conv("b/bias", y, 20, 1)))
    y = net.emit("swish", nn.silu(b))
    for name in ("relu", "slope", "silu", "hard"):
        z = _activated(net, name, net.conv(f"{name}/bias", y, 20, 3, padding=1))
        y = net.emit(name, relax.op.add(y, z))
    return net.module(net.conv("y", y, 6, 1))


def _activated(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    if name == "relu":
        y = nn.relu(x)
    elif name == "slope":
        y = nn.leakyrelu(x, 0.2)
    elif name == "silu":
        y = nn.silu(x)
    else:
        shifted = net.emit(f"{name}/3", relax.op.add(x, relax.const(3.0)))
        bounded = net.emit(f"{name}/clip", relax.op.clip(shifted, 0, 6))
        times = net.emit(f"{name}/times", relax.op.multiply(x, bounded))
        sixth = net.emit(f"{name}/sixth", relax.op.divide(times, relax.const(6.0)))
        scaled = net.emit(f"{name}/scaled", relax.op.multiply(sixth, relax.const(0.4)))
        y = relax.op.add(scaled, relax.const(-0.3))
    return net.emit(f"{name}/of", y)


NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {
    "residual": residual,
    "branches": branches,
    "dense blocks": dense_blocks,
    "depthwise": depthwise,
    "moves": moves,
    "activations": activations,
    "functions": functions,
    "enlargements": enlargements,
    "pyramid": pyramid,
    "pairs": pairs,
    "constants": constants,
    "borders": borders,
    "sums": sums,
}


def images(mod: tvm.IRModule, count: int = 1, seed: int = 1) -> list[np.ndarray]:
    """Return ``count`` inputs."""
    rng = np.random.default_rng(seed)
    dims = shape(mod["main"].params[0])
    return [rng.normal(size=dims).astype("float32") for _ in range(count)]


def any_params(plan: Plan, spread: Sequence[float] = (0.7, 1.3, 3.1)) -> dict[str, QParams]:
    """Return parameters for every calibrated tensor without calibrating: odd ranges, some tight."""
    params = {}
    for place, name in enumerate(plan.calibrated):
        high = spread[place % len(spread)] * (1 + place / 50)
        scheme = plan.tensors[name].scheme
        planned = "s8" if scheme == "input" else scheme
        params[name] = activation(planned, 0.0 if planned == "u8" else -0.6 * high, high)
    return params
