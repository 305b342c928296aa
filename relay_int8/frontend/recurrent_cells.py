"""Steps of recurrent layers: one dense layer for the state, element-wise operators for the gates.

LSTM:  i, f, g, o = of x + of h;  c = s(f) * c + s(i) * tanh(g);  h = s(o) * tanh(c)
GRU:   r, z = s(of x + of h);  n = tanh(n_x + r * n_h);  h = n + z * (h - n)
n = tanh(n_x + product of r * h) where it resets before the product
RNN:   h = tanh(of x + of h)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype, shape

Activation = Callable[[Emit, relax.Expr], relax.Expr]
State = Sequence[relax.Expr | None]  # None stands for zeros


def sigmoid(emit: Emit, x: relax.Expr) -> relax.Expr:
    """``1 / (1 + exp(-x))``."""
    return emit("sigmoid", relax.op.sigmoid(x))


def tanh(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Hyperbolic tangent."""
    return emit("tanh", relax.op.tanh(x))


def relu(emit: Emit, x: relax.Expr) -> relax.Expr:
    """``max(x, 0)``."""
    return emit("relu", relax.op.nn.relu(x))


def hard_sigmoid(alpha: float, beta: float) -> Activation:
    """``min(max(alpha * x + beta, 0), 1)``."""

    def _activate(emit: Emit, x: relax.Expr) -> relax.Expr:
        scaled = emit("scaled", relax.op.multiply(x, relax.const(alpha, dtype(x))))
        shifted = emit("shifted", relax.op.add(scaled, relax.const(beta, dtype(x))))
        return emit("clipped", _clip(shifted, 0.0, 1.0))

    return _activate


def clipped(activation: Activation, bound: float) -> Activation:
    """Return an activation whose input is first brought within ``bound`` of zero."""

    def _activate(emit: Emit, x: relax.Expr) -> relax.Expr:
        return activation(emit, emit("clipped", _clip(x, -bound, bound)))

    return _activate


@dataclass(frozen=True)
class RecurrentWeights:
    """Weights of one layer in one direction; along axis 0 the gates lie one behind the other.

    Parameters
    ----------
    of_input, of_state
        (gates * hidden, input) and (gates * hidden, hidden).
    input_bias, state_bias
        (gates * hidden,) each, or None.
    """

    of_input: relax.Expr
    of_state: relax.Expr
    input_bias: relax.Expr | None = None
    state_bias: relax.Expr | None = None


@dataclass(frozen=True)
class DenseProducts:
    """A dense layer of the state; ``w`` is (inputs, outputs)."""

    w: relax.Expr
    bias: relax.Expr | None = None

    def of(self, emit: Emit, x: relax.Expr | None) -> relax.Expr | None:
        """Return the result, or the bias where the input is zero."""
        if x is None:
            return self.bias
        return _sum(emit, emit("matmul", relax.op.matmul(x, self.w)), self.bias)


class RecurrentCell(Protocol):
    """The step of a recurrent layer: its gates, its dense layers, the state behind it."""

    @property
    def gates(self) -> int:
        """How many gates the weights have."""

    def products(
        self, emit: Emit, weights: RecurrentWeights
    ) -> tuple[relax.Expr | None, list[DenseProducts]]:
        """Return the bias of the inputs' dense layer, and the dense layers of the state."""

    def step(
        self, emit: Emit, x: relax.Expr, state: State, products: list[DenseProducts]
    ) -> list[relax.Expr]:
        """Return the state after a step; its first tensor is the step's output."""


class _OneProductCell:
    """A cell whose gates all add the product of the input and that of the state."""

    def products(
        self, emit: Emit, weights: RecurrentWeights
    ) -> tuple[relax.Expr | None, list[DenseProducts]]:
        """Sum the biases, so that the product of the state has none."""
        return _bias_sum(emit, weights), [DenseProducts(transposed(emit, weights.of_state))]


@dataclass(frozen=True)
class PlainCell(_OneProductCell):
    """A step of an RNN without gates."""

    activation: Activation = tanh
    gates: int = 1

    def step(
        self, emit: Emit, x: relax.Expr, state: State, products: list[DenseProducts]
    ) -> list[relax.Expr]:
        """Return the new state."""
        return [self.activation(emit, _sum(emit, x, products[0].of(emit, state[0])))]


@dataclass(frozen=True)
class LstmCell(_OneProductCell):
    """A step of an LSTM; its state is the output h and the memory c.

    Parameters
    ----------
    order
        How the gates lie: letters i, f, g, o.
    gate, content, shown
        Activations of i, f and o, of g, and of the memory.
    peepholes
        What the memory is multiplied by before it is added to i, f (before the step) and o (after
        it), in this order: (hidden,) each.
    is_coupled
        Whether f is ``1 - i``.
    memory_limit
        What the memory is kept within, of zero; None for no limit.
    projection
        What the output is multiplied by before it is given on, (hidden, projected); or None.
    """

    order: str
    gate: Activation = sigmoid
    content: Activation = tanh
    shown: Activation = tanh
    peepholes: tuple[relax.Expr, relax.Expr, relax.Expr] | None = None
    is_coupled: bool = False
    memory_limit: float | None = None
    projection: relax.Expr | None = None
    gates: int = 4

    def step(
        self, emit: Emit, x: relax.Expr, state: State, products: list[DenseProducts]
    ) -> list[relax.Expr]:
        """Return the new output and memory."""
        h, c = state
        total = _sum(emit, x, products[0].of(emit, h))
        gates = dict(zip(self.order, _parts(emit, total, 4), strict=True))
        i = self.gate(emit, self.gate_sum(emit, "i", gates["i"], c))
        g = self.content(emit, self.gate_sum(emit, "g", gates["g"], None))
        new = emit("new", relax.op.multiply(i, g))
        if c is not None:
            if self.is_coupled:
                f = emit("forget", relax.op.subtract(relax.const(1.0, dtype(i)), i))
            else:
                f = self.gate(emit, self.gate_sum(emit, "f", gates["f"], c))
            new = _sum(emit, emit("old", relax.op.multiply(f, c)), new)
        if self.memory_limit is not None:
            new = emit("limited", _clip(new, -self.memory_limit, self.memory_limit))
        o = self.gate(emit, self.gate_sum(emit, "o", gates["o"], new))
        hidden = emit("hidden", relax.op.multiply(o, self.shown(emit, new)))
        if self.projection is not None:
            hidden = emit("projected", relax.op.matmul(hidden, self.projection))
        return [hidden, new]

    def gate_sum(self, emit: Emit, gate: str, x: relax.Expr, c: relax.Expr | None) -> relax.Expr:
        """Return what a gate's activation is of: the products, and what the gate sees of c."""
        if self.peepholes is None or c is None:
            return x
        factors = self.peepholes["ifo".index(gate)]
        return _sum(emit, x, emit("peephole", relax.op.multiply(c, factors)))


@dataclass(frozen=True)
class GruCell:
    """A step of a GRU.

    Parameters
    ----------
    order
        How the gates lie before n: "rz" or "zr".
    gate, content
        Activations of r and z, and of n.
    resets_product
        Whether r multiplies the product of the state, with its bias; else the state itself.
    """

    order: str
    gate: Activation = sigmoid
    content: Activation = tanh
    resets_product: bool = True
    gates: int = 3

    def products(
        self, emit: Emit, weights: RecurrentWeights
    ) -> tuple[relax.Expr | None, list[DenseProducts]]:
        """Return one product of the state, with the bias of n; or one of r and z and one of n."""
        turned = transposed(emit, weights.of_state)
        if self.resets_product:
            return self._split_biases(emit, weights, turned)
        hidden, rows = shape(turned)
        parts = [
            emit("rows", relax.op.strided_slice(turned, [1], [begin], [end]))
            for begin, end in ((0, 2 * hidden), (2 * hidden, rows))
        ]
        return _bias_sum(emit, weights), [DenseProducts(part) for part in parts]

    def step(
        self, emit: Emit, x: relax.Expr, state: State, products: list[DenseProducts]
    ) -> list[relax.Expr]:
        """Return the new state."""
        h = state[0]
        inputs = _parts(emit, x, 3)
        product = products[0].of(emit, h)
        count = 3 if self.resets_product else 2
        states = [None] * 3 if product is None else [*_parts(emit, product, count), None][:3]
        sums = inputs[:2]
        if h is not None:
            sums = [_sum(emit, a, b) for a, b in zip(sums, states, strict=False)]
        gates = dict(zip(self.order, sums, strict=True))
        reset: relax.Expr | None = None
        if not self.resets_product and h is not None:
            r = self.gate(emit, gates["r"])
            reset = products[1].of(emit, emit("reset", relax.op.multiply(r, h)))
        elif states[2] is not None:
            r = self.gate(emit, gates["r"])
            scale = _scaled_channels if h is None else _product
            reset = scale(emit, r, states[2])
        new = self.content(emit, _sum(emit, inputs[2], reset))
        z = self.gate(emit, gates["z"])
        if h is None:
            return [emit("hidden", relax.op.subtract(new, emit("kept", relax.op.multiply(z, new))))]
        kept = emit("kept", relax.op.multiply(z, emit("apart", relax.op.subtract(h, new))))
        return [emit("hidden", relax.op.add(kept, new))]

    def _split_biases(
        self, emit: Emit, weights: RecurrentWeights, turned: relax.Expr
    ) -> tuple[relax.Expr | None, list[DenseProducts]]:
        """Move the state's biases of r and z to the inputs: r multiplies that of n alone."""
        bias = weights.state_bias
        if bias is None:
            return weights.input_bias, [DenseProducts(turned)]
        is_new = np.repeat(np.array([0, 0, 1], dtype(bias)), shape(turned)[0])
        moved = emit("bias", relax.op.multiply(bias, relax.const(1 - is_new)))
        inside = emit("bias", relax.op.multiply(bias, relax.const(is_new)))
        whole = moved if weights.input_bias is None else _sum(emit, weights.input_bias, moved)
        return whole, [DenseProducts(turned, inside)]


def _bias_sum(emit: Emit, weights: RecurrentWeights) -> relax.Expr | None:
    if weights.input_bias is None:
        return weights.state_bias
    return _sum(emit, weights.input_bias, weights.state_bias)


def transposed(emit: Emit, weights: relax.Expr) -> relax.Expr:
    """Return weights as (inputs, outputs)."""
    return emit("weight", relax.op.permute_dims(weights, [1, 0]))


def _parts(emit: Emit, x: relax.Expr, count: int) -> list[relax.Expr]:
    """Return the gates, which lie one behind the other."""
    axis = len(shape(x)) - 1
    size = shape(x)[axis] // count
    return [
        emit("gate", relax.op.strided_slice(x, [axis], [i * size], [(i + 1) * size]))
        for i in range(count)
    ]


def _sum(emit: Emit, a: relax.Expr, b: relax.Expr | None) -> relax.Expr:
    return a if b is None else emit("sum", relax.op.add(a, b))


def _product(emit: Emit, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    return emit("product", relax.op.multiply(a, b))


def _scaled_channels(emit: Emit, x: relax.Expr, factors: relax.Expr) -> relax.Expr:
    """Multiply columns by factors, as an image's channels: integers have a layer for these."""
    image = emit("image", relax.op.reshape(x, (*shape(x), 1, 1)))
    column = emit("factors", relax.op.reshape(factors, (1, *shape(factors), 1, 1)))
    return emit("matrix", relax.op.reshape(_product(emit, image, column), shape(x)))


def _clip(x: relax.Expr, low: float, high: float) -> relax.Expr:
    return relax.op.clip(x, relax.prim_value(low), relax.prim_value(high))
