"""Networks with norms and softmax in canonical form: blocks of transformers, normalized images."""

from collections.abc import Callable

import numpy as np
import tvm
from tvm import relax

from tests.small_networks import NetworkWriter, nn

TOKENS, WIDTH, HIDDEN = 9, 32, 48


def dense(net: NetworkWriter, name: str, x: relax.Var, rows: int, columns: int) -> relax.Var:
    """Bind a product with weights and a bias."""
    product = relax.op.matmul(x, net.constant(rows, columns, scale=rows**-0.5))
    return net.emit(name, relax.op.add(net.emit(f"{name}/product", product), net.constant(columns)))


def layer_norm(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    """Bind a LayerNorm of the last axis."""
    gamma, beta = net.constant(WIDTH), net.constant(WIDTH)
    return net.emit(name, nn.layer_norm(x, gamma, beta, [-1], 1e-6))


def perceptron(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    """Bind two dense layers with a GELU between them."""
    up = dense(net, f"{name}/up", x, WIDTH, HIDDEN)
    return dense(net, f"{name}/down", net.emit(f"{name}/gelu", nn.gelu(up)), HIDDEN, WIDTH)


def perceptrons() -> tvm.IRModule:
    """Pre-norm blocks without attention: LayerNorm, then RMSNorm; shares of one at the end."""
    net = NetworkWriter((TOKENS, WIDTH))
    first = perceptron(net, "first", layer_norm(net, "norm", net.x))
    stream = net.emit("stream", relax.op.add(net.x, first))
    rms = net.emit("rms", nn.rms_norm(stream, net.constant(WIDTH), [-1], 1e-5))
    second = net.emit("last", relax.op.add(stream, perceptron(net, "second", rms)))
    logits = dense(net, "logits", layer_norm(net, "final", second), WIDTH, 20)
    return net.module(net.emit("shares", nn.softmax(logits, -1)))


def images() -> tvm.IRModule:
    """GroupNorm and ReLU, InstanceNorm and swish, LayerNorm over channels, each between convolutions."""
    net = NetworkWriter((1, 3, 10, 9))
    a = net.conv("a", net.x, 16, 3, padding=1)
    norm = net.emit("norm", nn.group_norm(a, net.constant(16), net.constant(16), 4, 1, [2, 3]))
    b = net.conv("b", net.relu("relu", norm), 12, 3, padding=1)
    norm = nn.instance_norm(b, net.constant(12), net.constant(12), 1, [2, 3])
    swish = net.emit("swish", nn.silu(net.emit("instances", norm)))
    c = net.conv("c", swish, 8, 1)
    last = net.emit("c/last", relax.op.permute_dims(c, [0, 2, 3, 1]))
    norm = net.emit("c/norm", nn.layer_norm(last, net.constant(8), net.constant(8), [-1]))
    first = net.emit("first", relax.op.permute_dims(norm, [0, 3, 1, 2]))
    d = net.relu("d", net.conv("d/bias", first, 16, 3, padding=1))
    return net.module(net.conv("e", d, 4, 1))


def attention() -> tvm.IRModule:
    """A block of a transformer: attention of two heads, then a perceptron, before each a norm."""
    net = NetworkWriter((TOKENS, WIDTH))
    norm, heads = layer_norm(net, "norm", net.x), []
    for name in ("q", "k", "v"):
        cut = relax.op.reshape(dense(net, name, norm, WIDTH, WIDTH), (TOKENS, 2, WIDTH // 2))
        axes = [1, 2, 0] if name == "k" else [1, 0, 2]
        heads.append(
            net.emit(f"{name}/heads", relax.op.permute_dims(net.emit(f"{name}/cut", cut), axes))
        )
    scores = net.emit("scores", relax.op.matmul(heads[0], heads[1]))
    scaled = net.emit("scaled", relax.op.multiply(scores, relax.const(np.float32(0.25))))
    shares = net.emit("shares", nn.softmax(scaled, -1))
    mixed = net.emit(
        "mixed",
        relax.op.permute_dims(net.emit("mix", relax.op.matmul(shares, heads[2])), [1, 0, 2]),
    )
    joined = net.emit("joined", relax.op.reshape(mixed, (TOKENS, WIDTH)))
    stream = net.emit("stream", relax.op.add(net.x, dense(net, "projected", joined, WIDTH, WIDTH)))
    second = perceptron(net, "perceptron", layer_norm(net, "second", stream))
    return net.module(net.emit("y", relax.op.add(stream, second)))


NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {"perceptrons": perceptrons, "images": images}
"""Those whose every float has the same bits on every target."""
