"""Train a small vision transformer on scikit-learn's digits, in NumPy, and write it as ONNX.

The network is that of the zoo, patches of 2 x 2 and blocks of attention, with the zoo's weights to
start from; training replaces them. Every layer returns its output and what turns the gradient of
that into the gradient of its input.

    python -m scripts.train_digits_vit tests/demo/digits_vit.onnx
"""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper
from scipy.special import erf
from sklearn.datasets import load_digits

from benchmarks.zoo.tokens import TokenNetwork
from benchmarks.zoo.vit import ViT
from relay_int8.demo import load_images
from scripts.digits_training import Array, Course, Step, report_accuracy, softmax, train

NETWORK = ViT(patch=2, width=32, hidden=64, blocks=2, heads=2, channels=1, size=8, classes=10)
SEED = 7
COURSE = Course(epochs=300, batch=50, rate=3e-3, smoothing=0.1, report_every=20)
DECAY = 0.5
BETAS = 0.9, 0.99


class Model:
    """The network's weights by their names in the file, and the arithmetic of its layers.

    Weights of dense layers are held as (inputs, outputs), also those that the file has transposed.
    """

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto
        kinds = {node.input[1]: node.op_type for node in proto.graph.node if len(node.input) > 1}
        self._transposed = {name for name, kind in kinds.items() if kind in ("Conv", "Gemm")}
        self._tensors = {  # what has one element is a constant, as a scale
            tensor.name: tensor
            for tensor in proto.graph.initializer
            if tensor.data_type == onnx.TensorProto.FLOAT and prod(tensor.dims) > 1
        }
        self.parameters = {name: self._read(tensor) for name, tensor in self._tensors.items()}
        self.gradients: dict[str, Array] = {}
        self._moments: dict[str, tuple[Array, Array]] = {}
        self._steps = 0

    def _read(self, tensor: onnx.TensorProto) -> Array:
        array = numpy_helper.to_array(tensor)
        return array.reshape(len(array), -1).T if tensor.name in self._transposed else array

    def write(self, file: Path) -> None:
        """Write the trained network."""
        for name, tensor in self._tensors.items():
            value = self.parameters[name]
            value = value.T if name in self._transposed else value
            content = np.ascontiguousarray(value.reshape(tuple(tensor.dims)), "float32")
            tensor.CopyFrom(numpy_helper.from_array(content, name))
        onnx.checker.check_model(self.proto, full_check=True)
        onnx.save(self.proto, file)

    def forward(self, images: Array, *, training: bool = False) -> Step:
        """Return the logits of images (n, 8, 8), and what takes their gradient back.

        It is the same network whether it learns or not.
        """
        n, side, p = len(images), NETWORK.size // NETWORK.patch, NETWORK.patch
        patches = images.reshape(n, side, p, side, p).transpose(0, 1, 3, 2, 4)
        x, embed = self._dense(patches.reshape(n, side * side, p * p), "conv_proj")
        token = np.broadcast_to(self.parameters["class_token"], (n, 1, NETWORK.width))
        x = np.concatenate([token, x], 1) + self.parameters["pos_embedding"]
        undo = []
        for block in range(NETWORK.blocks):
            x, back = self._block(x, f"encoder.layers.{block}")
            undo.append(back)
        first, unnorm = self._norm(x[:, :1], "encoder.ln")
        logits, head = self._dense(first, "heads.head")

        def backward(d: Array) -> Array:
            d_tokens = np.zeros_like(x)
            d_tokens[:, :1] = unnorm(head(d[:, None]))
            for back in reversed(undo):
                d_tokens = back(d_tokens)
            self.gradients["pos_embedding"] = d_tokens.sum(0, keepdims=True)
            self.gradients["class_token"] = d_tokens[:, :1].sum(0, keepdims=True)
            return embed(d_tokens[:, 1:])

        return logits[:, 0], backward

    def _block(self, x: Array, name: str) -> Step:
        y, norm_1 = self._norm(x, f"{name}.ln_1")
        y, attend = self._attention(y, f"{name}.self_attention")
        x = x + y
        y, norm_2 = self._norm(x, f"{name}.ln_2")
        y, first = self._dense(y, f"{name}.mlp.0")
        y, activate = _gelu(y)
        y, second = self._dense(y, f"{name}.mlp.3")

        def backward(d: Array) -> Array:
            d = d + norm_2(first(activate(second(d))))
            return d + norm_1(attend(d))

        return x + y, backward

    def _attention(self, x: Array, name: str) -> Step:
        n, tokens, width = x.shape
        shape = (n, tokens, 3, NETWORK.heads, width // NETWORK.heads)
        qkv, project = self._dense(x, f"{name}.in_proj")
        q, k, v = qkv.reshape(shape).transpose(2, 0, 3, 1, 4)
        scale = (width // NETWORK.heads) ** -0.5
        p = softmax(q @ k.swapaxes(2, 3) * scale)
        y, out = self._dense((p @ v).swapaxes(1, 2).reshape(n, tokens, width), f"{name}.out_proj")

        def backward(d: Array) -> Array:
            d = out(d).reshape(n, tokens, NETWORK.heads, -1).swapaxes(1, 2)
            d_p = d @ v.swapaxes(2, 3)
            d_scores = p * (d_p - (d_p * p).sum(-1, keepdims=True)) * scale
            parts = [d_scores @ k, d_scores.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ d]
            return project(np.stack(parts).transpose(1, 3, 0, 2, 4).reshape(n, tokens, 3 * width))

        return y, backward

    def _dense(self, x: Array, name: str) -> Step:
        weight = self.parameters[f"{name}.weight"]

        def backward(d: Array) -> Array:
            rows = d.reshape(-1, d.shape[-1])
            self.gradients[f"{name}.weight"] = x.reshape(-1, x.shape[-1]).T @ rows
            self.gradients[f"{name}.bias"] = rows.sum(0)
            return d @ weight.T

        return x @ weight + self.parameters[f"{name}.bias"], backward

    def _norm(self, x: Array, name: str) -> Step:
        gamma = self.parameters[f"{name}.weight"]
        inverse = 1 / np.sqrt(x.var(-1, keepdims=True) + NETWORK.epsilon)
        normal = (x - x.mean(-1, keepdims=True)) * inverse

        def backward(d: Array) -> Array:
            self.gradients[f"{name}.weight"] = (d * normal).sum((0, 1))
            self.gradients[f"{name}.bias"] = d.sum((0, 1))
            d = d * gamma
            projected = (d * normal).mean(-1, keepdims=True)
            return (d - d.mean(-1, keepdims=True) - normal * projected) * inverse

        return normal * gamma + self.parameters[f"{name}.bias"], backward

    def step(self, rate: float) -> None:
        """Move along the gradients by Adam, weights of dense layers decaying apart from them."""
        self._steps += 1
        first, second = BETAS
        for name, value in self.parameters.items():
            d = self.gradients[name]
            mean, square = self._moments.get(name, (np.zeros_like(d), np.zeros_like(d)))
            mean, square = first * mean + (1 - first) * d, second * square + (1 - second) * d**2
            self._moments[name] = mean, square
            move = mean / (1 - first**self._steps)
            move = move / (np.sqrt(square / (1 - second**self._steps)) + 1e-8)
            decayed = DECAY * value if value.ndim == 2 else 0
            self.parameters[name] = (value - rate * (move + decayed)).astype("float32")


def _gelu(x: Array) -> Step:
    gate = 0.5 * (1 + erf(x / 2**0.5))
    density = np.exp(-0.5 * x * x) * (2 * np.pi) ** -0.5
    return x * gate, lambda d: d * (gate + x * density)


def untrained() -> onnx.ModelProto:
    """Return the network with the zoo's weights."""
    net = TokenNetwork(batch=1, seed=SEED, opset=NETWORK.opset)
    return net.finish("digits_vit", NETWORK.write(net, NETWORK.size, NETWORK.classes))


def main() -> None:
    """Train on what the demo's images leave, measure on its test images, write the network."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    file = parser.parse_args().file
    held_out, digits = load_images(), load_digits()
    tests = {image.tobytes() for image in held_out.test}
    images = digits.images.astype("float32") / 16
    kept = [index for index, image in enumerate(images) if image[None].tobytes() not in tests]

    model = Model(untrained())
    train(model, images[kept], digits.target[kept], np.random.default_rng(SEED), COURSE)
    logits, _ = model.forward(held_out.test[:, 0])
    report_accuracy(logits, held_out.labels)
    model.write(file)


if __name__ == "__main__":
    main()
