"""Train the demo network on scikit-learn's digits and write it, with its images, into the package.

A residual network small enough for NumPy: images are NHWC, a convolution is one matrix product on
shifted copies of its input. Every layer appends what undoes it to a tape, read backwards.

    python -m scripts.train_demo_model relay_int8/demo
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

from scripts.digits_training import Array, Course, Step, report_accuracy, train

SEED = 7
TEST_IMAGES, CALIBRATION_IMAGES = 800, 300
COURSE = Course(epochs=40, batch=50, rate=0.1)
MOMENTUM, DECAY = 0.9, 5e-4
EPSILON, STATISTICS_RATE = 1e-5, 0.1
# Name, input channels, output channels, stride of each residual block.
BLOCKS = (("block1", 16, 16, 1), ("block2", 16, 32, 2), ("block3", 32, 32, 1))


class Model:
    """Parameters by name, their gradients and momenta, and the arithmetic of the layers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.parameters: dict[str, Array] = {}
        self.statistics: dict[str, Array] = {}
        self.gradients: dict[str, Array] = {}
        self._momenta: dict[str, Array] = {}
        self._add_conv_norm(rng, "stem", 1, 16, 3)
        for name, c_in, c_out, stride in BLOCKS:
            self._add_conv_norm(rng, f"{name}.1", c_in, c_out, 3)
            self._add_conv_norm(rng, f"{name}.2", c_out, c_out, 3)
            if stride != 1 or c_in != c_out:
                self._add_conv_norm(rng, f"{name}.shortcut", c_in, c_out, 1)
        self.parameters["dense.weight"] = rng.normal(0, 32**-0.5, (32, 10)).astype("float32")
        self.parameters["dense.bias"] = np.zeros(10, "float32")

    def _add_conv_norm(
        self, rng: np.random.Generator, name: str, c_in: int, c_out: int, kernel: int
    ) -> None:
        fan_in = kernel * kernel * c_in
        w = rng.normal(0, (2 / fan_in) ** 0.5, (kernel, kernel, c_in, c_out))
        self.parameters[f"{name}.weight"] = w.astype("float32")
        self.parameters[f"{name}.gamma"] = np.ones(c_out, "float32")
        self.parameters[f"{name}.beta"] = np.zeros(c_out, "float32")
        self.statistics[f"{name}.mean"] = np.zeros(c_out, "float32")
        self.statistics[f"{name}.var"] = np.ones(c_out, "float32")

    def forward(self, x: Array, *, training: bool = False) -> Step:
        """Return logits, and what turns their gradient into those of the parameters."""
        x, stem = self._conv_norm_relu(x, "stem", 1, training)
        undo = [stem]
        for name, c_in, c_out, stride in BLOCKS:
            x, block = self._block(x, name, stride, stride != 1 or c_in != c_out, training)
            undo.append(block)
        pooled = x.mean((1, 2))
        logits = pooled @ self.parameters["dense.weight"] + self.parameters["dense.bias"]

        def backward(d: Array) -> Array:
            self.gradients["dense.weight"] = pooled.T @ d
            self.gradients["dense.bias"] = d.sum(0)
            d = (d @ self.parameters["dense.weight"].T)[:, None, None, :]
            d = np.broadcast_to(d / (x.shape[1] * x.shape[2]), x.shape)
            for step in reversed(undo):
                d = step(d)
            return d

        return logits, backward

    def _block(self, x: Array, name: str, stride: int, shortcut: bool, training: bool) -> Step:
        y, first = self._conv_norm_relu(x, f"{name}.1", stride, training)
        y, second = self._conv_norm(y, f"{name}.2", 1, training)
        side, third = (
            self._conv_norm(x, f"{name}.shortcut", stride, training)
            if shortcut
            else (x, lambda d: d)
        )
        y = np.maximum(y + side, 0)

        def backward(d: Array) -> Array:
            d = d * (y > 0)
            return first(second(d)) + third(d)

        return y, backward

    def _conv_norm_relu(self, x: Array, name: str, stride: int, training: bool) -> Step:
        y, undo = self._conv_norm(x, name, stride, training)
        y = np.maximum(y, 0)
        return y, lambda d: undo(d * (y > 0))

    def _conv_norm(self, x: Array, name: str, stride: int, training: bool) -> Step:
        c, undo_conv = self._conv(x, f"{name}.weight", stride)
        gamma, beta = self.parameters[f"{name}.gamma"], self.parameters[f"{name}.beta"]
        if training:
            mean, var = c.mean((0, 1, 2)), c.var((0, 1, 2))
            for key, seen in (("mean", mean), ("var", var)):
                kept = self.statistics[f"{name}.{key}"]
                self.statistics[f"{name}.{key}"] = kept + STATISTICS_RATE * (seen - kept)
        else:
            mean, var = (self.statistics[f"{name}.{key}"] for key in ("mean", "var"))
        inverse = 1 / np.sqrt(var + EPSILON)
        normal = (c - mean) * inverse

        def backward(d: Array) -> Array:
            self.gradients[f"{name}.gamma"] = (d * normal).sum((0, 1, 2))
            self.gradients[f"{name}.beta"] = d.sum((0, 1, 2))
            d = d * gamma
            d = d - d.mean((0, 1, 2)) - normal * (d * normal).mean((0, 1, 2))
            return undo_conv(d * inverse)

        return normal * gamma + beta, backward

    def _conv(self, x: Array, name: str, stride: int) -> Step:
        w = self.parameters[name]
        k, _, c_in, c_out = w.shape
        pad = k // 2
        padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
        rows, cols = ((size + 2 * pad - k) // stride + 1 for size in x.shape[1:3])

        def window(array: Array, i: int, j: int) -> Array:
            return array[:, i : i + stride * rows : stride, j : j + stride * cols : stride]

        taps = [(i, j) for i in range(k) for j in range(k)]
        columns = np.concatenate([window(padded, i, j) for i, j in taps], axis=3)
        columns = columns.reshape(-1, k * k * c_in)

        def backward(d: Array) -> Array:
            d = d.reshape(-1, c_out)
            self.gradients[name] = (columns.T @ d).reshape(w.shape)
            spread = (d @ w.reshape(-1, c_out).T).reshape(len(x), rows, cols, k * k, c_in)
            d_padded = np.zeros_like(padded)
            for tap, (i, j) in enumerate(taps):
                window(d_padded, i, j)[...] += spread[:, :, :, tap]
            return d_padded[:, pad : pad + x.shape[1], pad : pad + x.shape[2]]

        return (columns @ w.reshape(-1, c_out)).reshape(len(x), rows, cols, c_out), backward

    def step(self, rate: float) -> None:
        """Move along the gradients: momentum, and weight decay on weights."""
        for name, value in self.parameters.items():
            d = self.gradients[name] + (DECAY * value if name.endswith("weight") else 0)
            self._momenta[name] = MOMENTUM * self._momenta.get(name, 0) + d
            self.parameters[name] = (value - rate * self._momenta[name]).astype("float32")


def to_onnx(model: Model) -> onnx.ModelProto:
    """Return the trained network in NCHW, batch norms kept."""
    nodes: list[onnx.NodeProto] = []
    tensors: dict[str, Array] = {}

    def add(op: str, inputs: list[str], name: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def conv_norm(x: str, name: str, stride: int = 1) -> str:
        w = model.parameters[f"{name}.weight"].transpose(3, 2, 0, 1)
        tensors[f"{name}.weight"] = np.ascontiguousarray(w)
        tensors.update({f"{name}.{k}": model.parameters[f"{name}.{k}"] for k in ("gamma", "beta")})
        tensors.update({f"{name}.{k}": model.statistics[f"{name}.{k}"] for k in ("mean", "var")})
        pads, strides = [w.shape[2] // 2] * 4, [stride, stride]
        c = add("Conv", [x, f"{name}.weight"], f"{name}.conv", pads=pads, strides=strides)
        parts = [f"{name}.{key}" for key in ("gamma", "beta", "mean", "var")]
        return add("BatchNormalization", [c, *parts], f"{name}.norm", epsilon=EPSILON)

    x = add("Relu", [conv_norm("image", "stem")], "stem.relu")
    for name, c_in, c_out, stride in BLOCKS:
        y = add("Relu", [conv_norm(x, f"{name}.1", stride)], f"{name}.1.relu")
        y = conv_norm(y, f"{name}.2")
        plain = stride == 1 and c_in == c_out
        side = x if plain else conv_norm(x, f"{name}.shortcut", stride)
        x = add("Relu", [add("Add", [y, side], f"{name}.add")], f"{name}.relu")
    x = add("Flatten", [add("GlobalAveragePool", [x], "pool")], "flatten")
    tensors["dense.weight"] = model.parameters["dense.weight"]
    tensors["dense.bias"] = model.parameters["dense.bias"]
    add("Gemm", [x, "dense.weight", "dense.bias"], "logits")
    graph = helper.make_graph(
        nodes,
        "digits_resnet",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ("N", 1, 8, 8))],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ("N", 10))],
        [numpy_helper.from_array(a.astype("float32"), name) for name, a in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Train, measure on held-out images, write model and images."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rng = np.random.default_rng(SEED)
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    images, labels = digits.images[order].astype("uint8"), digits.target[order].astype("uint8")
    x = images[..., None].astype("float32") / 16

    model = Model(rng)
    train(model, x[TEST_IMAGES:], labels[TEST_IMAGES:], rng, COURSE)
    logits, _ = model.forward(x[:TEST_IMAGES])
    report_accuracy(logits, labels[:TEST_IMAGES])

    proto = to_onnx(model)
    onnx.checker.check_model(proto, full_check=True)
    onnx.save(proto, folder / "digits_resnet.onnx")
    calibration = slice(TEST_IMAGES, TEST_IMAGES + CALIBRATION_IMAGES)
    np.savez_compressed(
        folder / "digits.npz",
        calibration=images[calibration],
        test=images[:TEST_IMAGES],
        labels=labels[:TEST_IMAGES],
    )


if __name__ == "__main__":
    main()
