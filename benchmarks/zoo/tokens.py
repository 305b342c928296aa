"""Write a network of tokens as ONNX, in the form that PyTorch's exporter writes today.

Tensors have any rank, shapes are fixed, dense layers are a product with a transposed weight and a
sum. Constants of shapes and slices are written by name, weights as in
:mod:`benchmarks.zoo.network`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.zoo.graph_writer import Tensor
from benchmarks.zoo.network import SWISHED, Network
from relay_int8.errors import ConfigError

IR_VERSION = 10
GELU_OPSET = 20  # the first with an operator for it
NORMED = 1.17  # mean square behind a norm: gammas are log-normal around 1, betas lie off zero
GELU_KEEPS = 0.43  # of the mean square of a normal number
ATTENDED = 0.3  # of the mean square of the values, behind scores of deviation SHARPNESS
SHARPNESS = 2.0  # trained attention prefers few tokens; at 1 it would be nearly an average
LOWEST = float(np.finfo(np.float32).min)
Kind = Literal["image", "indices", "mask"]


@dataclass(frozen=True)
class Tokens:
    """A tensor: its name, all its extents and its estimated mean square."""

    name: str
    shape: tuple[int, ...]
    square: float


@dataclass(frozen=True)
class Input:
    """What a network reads.

    Attributes
    ----------
    name, shape
        Of the input, the batch left out.
    kind
        Float images; int64 indices; an int64 mask of ones, then zeros for padding.
    count
        Indices are less than this.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind = "image"
    count: int = 0


class TokenNetwork(Network):
    """A network of tokens in the making; every method adds one layer and returns its output.

    Parameters
    ----------
    batch
        Leading extent of all inputs.
    seed
        Seed of the weights; None writes no weights, to count them alone.
    opset
        18 or more, as today's exporters choose; the GELU is one operator from 20 on.
    """

    def __init__(self, *, batch: int, seed: int | None, opset: int) -> None:
        super().__init__(batch=batch, seed=seed)
        self.batch = batch
        self.opset = opset
        self.inputs: list[Input] = []

    def input(self, channels: int, size: int) -> Tensor:
        """Add the image; its mean square is taken to be 1."""
        self.inputs.append(Input("input", (channels, size, size)))
        return super().input(channels, size)

    def integers(self, name: str, tokens: int, kind: Kind, count: int) -> Tokens:
        """Add an int64 input of shape (batch, tokens) whose numbers are less than ``count``."""
        self.inputs.append(Input(name, (tokens,), kind, count))
        shape = (self.batch, tokens)
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, shape))
        return Tokens(name, shape, 0.0)

    def unpacked(self, x: Tensor) -> Tokens:
        """Return an image as a tensor of four extents; adds nothing."""
        return Tokens(x.name, (self.batch, x.channels, x.height, x.width), x.square)

    def image(self, x: Tokens) -> Tensor:
        """Return a tensor of four extents as an image; adds nothing."""
        _, channels, height, width = x.shape
        return Tensor(x.name, channels, height, width, x.square)

    def constant(self, name: str, value: np.ndarray, square: float = 0.0) -> Tokens:
        """Add a constant that is not learned."""
        self._constant(name, value)
        return Tokens(name, value.shape, square)

    def parameter(self, name: str, shape: tuple[int, ...], deviation: float) -> Tokens:
        """Add a learned tensor of normal numbers."""
        self._normal(name, shape, deviation)
        return Tokens(name, shape, deviation**2)

    def gathered(self, name: str, extents: tuple[int, int], rows: np.ndarray) -> Tokens:
        """Add rows of a learned table of normal numbers, as folding of constants leaves them."""
        self.cost.parameters += prod(extents)
        shape = (*rows.shape, extents[1])
        if self._rng is not None:
            self._constant(name, self._rng.standard_normal(extents, "float32")[rows])
        return Tokens(name, shape, 1.0)

    def operator(
        self,
        op: str,
        inputs: Sequence[Tokens],
        name: str,
        shape: tuple[int, ...],
        square: float | None = None,
        **attributes: object,
    ) -> Tokens:
        """Add any operator; its mean square is that of the first input by default."""
        self._add(op, [x.name for x in inputs], name, **attributes)
        return Tokens(name, shape, inputs[0].square if square is None else square)

    def reshape(self, x: Tokens, name: str, shape: tuple[int, ...]) -> Tokens:
        """Change the extents."""
        if prod(shape) != prod(x.shape):
            raise ConfigError(f"{name}: {x.shape} does not fit {shape}; choose another image_size")
        target = self.constant(f"{name}.shape", np.array(shape, np.int64))
        return self.operator("Reshape", (x, target), name, shape, allowzero=1)

    def transpose(self, x: Tokens, name: str, *axes: int) -> Tokens:
        """Change the order of the axes."""
        shape = tuple(x.shape[axis] for axis in axes)
        return self.operator("Transpose", (x,), name, shape, perm=list(axes))

    def take(self, x: Tokens, name: str, axis: int, index: int) -> Tokens:
        """Select one index of an axis, as ``x[index]`` is exported."""
        chosen = self.constant(f"{name}.index", np.array(index, np.int64))
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        return self.operator("Gather", (x, chosen), name, shape, axis=axis)

    def slice(
        self, x: Tokens, name: str, axis: int, begin: int, end: int | None, step: int = 1
    ) -> Tokens:
        """Keep a range of an axis; without an end all of the rest, as ``x[begin::step]``."""
        last = x.shape[axis] if end is None else end
        bounds = (begin, np.iinfo(np.int64).max if end is None else end, axis, step)
        operands = [
            self.constant(f"{name}.{part}", np.array([value], np.int64))
            for part, value in zip(("starts", "ends", "axes", "steps"), bounds, strict=True)
        ]
        shape = (*x.shape[:axis], -(-(last - begin) // step), *x.shape[axis + 1 :])
        return self.operator("Slice", (x, *operands), name, shape)

    def join(self, parts: Sequence[Tokens], name: str, axis: int) -> Tokens:
        """Concatenate along any axis."""
        extents = [part.shape[axis] for part in parts]
        weighted = sum(part.square * n for part, n in zip(parts, extents, strict=True))
        shape = list(parts[0].shape)
        shape[axis] = sum(extents)
        square = weighted / sum(extents)
        return self.operator("Concat", parts, name, tuple(shape), square, axis=axis)

    def plus(self, a: Tokens, b: Tokens, name: str) -> Tokens:
        """Add two tensors, either broadcast."""
        shape = np.broadcast_shapes(a.shape, b.shape)
        return self.operator("Add", (a, b), name, shape, a.square + b.square)

    def times(self, x: Tokens, name: str, factor: float, shape: tuple[int, ...] = ()) -> Tokens:
        """Multiply by a constant of one element."""
        scalar = self.constant(f"{name}.factor", np.full(shape, factor, np.float32))
        return self.operator("Mul", (x, scalar), name, x.shape, x.square * factor**2)

    def product(self, a: Tokens, b: Tokens, name: str, square: float) -> Tokens:
        """Multiply two tensors as batches of matrices."""
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
        self.cost.macs += prod(shape) * a.shape[-1] // self.batch
        return self.operator("MatMul", (a, b), name, shape, square)

    def linear(
        self, x: Tokens, name: str, channels: int, *, gain: float = 1.0, bias: bool = True
    ) -> Tokens:
        """Add a dense layer over the last axis; its output has a mean square of ``gain**2``."""
        fan_in = x.shape[-1]
        deviation = gain * (fan_in * x.square) ** -0.5
        weight = self.parameter(f"{name}.weight", (fan_in, channels), deviation)
        if not bias:
            return self.product(x, weight, name, gain**2)
        y = self.product(x, weight, f"{name}.matmul", gain**2)
        return self.plus(y, self.parameter(f"{name}.bias", (channels,), 0.1 * gain), name)

    def gemm(self, x: Tokens, name: str, channels: int, *, gain: float = 1.0) -> Tokens:
        """Add a dense layer over (rows, channels), the form it has without further axes."""
        rows, fan_in = x.shape
        deviation = gain * (fan_in * x.square) ** -0.5
        weight = self.parameter(f"{name}.weight", (channels, fan_in), deviation)
        bias = self.parameter(f"{name}.bias", (channels,), 0.1 * gain)
        self.cost.macs += rows * channels * fan_in // self.batch
        shape, options = (rows, channels), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
        return self.operator("Gemm", (x, weight, bias), name, shape, gain**2, **options)

    def layer_norm(self, x: Tokens, name: str, *, epsilon: float = 1e-5) -> Tokens:
        """Add a norm over the last axis whose gammas lie around 1."""
        channels = (x.shape[-1],)
        self._spread(f"{name}.weight", channels, 1.0)
        beta = self.parameter(f"{name}.bias", channels, 0.2)
        operands = (x, Tokens(f"{name}.weight", channels, 1.0), beta)
        options = {"axis": -1, "epsilon": epsilon, "stash_type": 1}
        return self.operator("LayerNormalization", operands, name, x.shape, NORMED, **options)

    def softmax(self, x: Tokens, name: str) -> Tokens:
        """Add a softmax over the last axis."""
        return self.operator("Softmax", (x,), name, x.shape, 1.0 / x.shape[-1], axis=-1)

    def gelu(self, x: Tokens, name: str) -> Tokens:
        """Add a GELU: one operator, or what the exporter writes where there is none."""
        kept = x.square * GELU_KEEPS
        if self.opset >= GELU_OPSET:
            return self.operator("Gelu", (x,), name, x.shape, kept, approximate="none")
        root, one, half = (
            self.constant(f"{name}.{part}", np.array(value, np.float32))
            for part, value in (("root", 2**0.5), ("one", 1), ("half", 0.5))
        )
        y = self.operator("Div", (x, root), f"{name}.div", x.shape)
        y = self.operator("Erf", (y,), f"{name}.erf", x.shape)
        y = self.operator("Add", (y, one), f"{name}.add", x.shape)
        y = self.operator("Mul", (half, y), f"{name}.gate", x.shape)
        return self.operator("Mul", (x, y), name, x.shape, kept)

    def silu(self, x: Tokens, name: str) -> Tokens:
        """Add a swish as exporters write it: x times its logistic function."""
        gate = self.operator("Sigmoid", (x,), f"{name}.sigmoid", x.shape)
        return self.operator("Mul", (x, gate), name, x.shape, x.square * SWISHED)

    def mean(self, x: Tokens, name: str, *, keep: bool) -> Tokens:
        """Average an image over height and width, which are kept or dropped."""
        axes = self.constant(f"{name}.axes", np.array([-1, -2], np.int64))
        shape = (*x.shape[:2], 1, 1) if keep else x.shape[:2]
        options = {"keepdims": int(keep), "noop_with_empty_axes": 0}
        return self.operator("ReduceMean", (x, axes), name, shape, 0.6 * x.square, **options)

    def adaptive_mean(self, x: Tokens, name: str) -> Tokens:
        """Average an image to one pixel as an adaptive pooling is exported, as strided memory."""
        x = self.mean(x, f"{name}.mean", keep=True)
        places = self.constant(f"{name}.places", np.arange(prod(x.shape)).reshape(x.shape))
        flat = self.reshape(x, f"{name}.flat", (prod(x.shape),))
        return self.operator("Gather", (flat, places), name, x.shape, axis=0)

    def finish(self, name: str, output: Tensor | Tokens) -> onnx.ModelProto:
        """Return the model that ends in ``output``."""
        shape = (output if isinstance(output, Tokens) else self.unpacked(output)).shape
        outputs = [helper.make_tensor_value_info(output.name, TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self._nodes, name, self._inputs, outputs, self._weights)
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            ir_version=IR_VERSION,
            producer_name="benchmarks.zoo",
        )
