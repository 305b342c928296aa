"""Recurrent layers: all steps of a sequence, behind the products of its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.normalizing import QUANTIZE_PARAMS
from schedules.spec.operator_spec import DType, OperatorSpec, Shape, Size, static_size

Cell = Literal["lstm", "gru", "gru_state", "rnn"]
GATES: dict[Cell, int] = {"lstm": 4, "gru": 3, "gru_state": 3, "rnn": 1}
"""How many rows of the weights each element of the state has."""
STATE_STEPS = 127  # of the largest element of a state
LEAST_STATE = 2.0**-64  # the largest element of a state is taken as this at least


@dataclass(frozen=True, kw_only=True)
class Recurrence(OperatorSpec):
    """The steps of an LSTM, a GRU or an RNN, from a state of zeros or a given one; all are float32.

    x is (steps, batch, gates * hidden), or with ``time`` 1 (batch, steps, gates * hidden): of each
    step the products of its input, biases included, gate by gate: LSTM i, f, g, o; GRU r, z, n.
    ``backward`` begins with the last step. With ``given`` the state before the first step is read:
    h and, of an LSTM, c, (batch, hidden) each. With h and c the state before a step, s the logistic
    function (:class:`Sigmoid`), ``a_k`` the sum ``x_k + sum w_k h`` of gate k:

    lstm:  ``c' = fma(s(a_f), c, s(a_i) * tanh(a_g))``, ``h' = s(a_o) * tanh(c')``
    gru:   ``n = tanh(fma(s(a_r), bias + sum w_n h, x_n))``, ``h' = fma(s(a_z), h - n, n)``
    gru_state:  the same with ``n = tanh(x_n + sum w_n (s(a_r) * h))``
    rnn:   ``h' = tanh(a)``

    ``tanh(v)`` is ``(1 - e) / (1 + e)`` with ``e = exp(max(-2|v|, -87))`` as :class:`Sigmoid` has
    it, less than zero where v is. With ``quantized`` a sum of products, added to b, is
    ``fma(float32(start + sum w * q) * scale, top / 127, b)``: ``top = max(max |h|, 2^-64)`` of the
    sequence's state, or of ``s(a_r) * h``, ``q = rint(h * (127 / top))``, int32 sums. Otherwise
    they are float32 sums, which ascend.

    y is h of every step, or the integer that :class:`Quantize` makes of it; with ``gives`` "memory"
    it is c after the last step, (batch, hidden).

    Params: w (gates * hidden, hidden), int8 if quantized, else float32; bias float32 (hidden,) of
    gru; scale float32 and start int32 (gates * hidden,) if quantized, start all zeros (kernels fold
    what their instructions need into it); where y is an integer those of :class:`Quantize`.
    """

    kind: ClassVar[str] = "recurrence"
    cell: Cell
    batch: Size
    steps: int
    hidden: int
    time: int = 0
    backward: bool = False
    given: bool = False
    gives: Literal["outputs", "memory"] = "outputs"
    quantized: bool = False
    y: DType = "float32"

    @property
    def gates(self) -> int:
        """Rows of the weights for each element of the state."""
        return GATES[self.cell]

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x", *self.states)

    @property
    def states(self) -> tuple[Literal["h", "c"], ...]:
        """Names of the activations that are the state before the first step."""
        if not self.given:
            return ()
        return ("h", "c") if self.cell == "lstm" else ("h",)

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return (
            "w",
            *(("bias",) if self.cell == "gru" else ()),
            *(("scale", "start") if self.quantized else ()),
            *(() if self.y == "float32" else QUANTIZE_PARAMS),
        )

    @property
    def multiplications(self) -> int:
        """How many products it sums up."""
        return static_size(self.batch) * self.steps * self.gates * self.hidden**2

    def shape(self, name: str) -> Shape:
        """Logical shape of x, y and the states."""
        if name in self.states or (name == "y" and self.gives == "memory"):
            return (self.batch, self.hidden)
        sizes = (self.batch, self.steps) if self.time else (self.steps, self.batch)
        return (*sizes, self.hidden if name == "y" else self.gates * self.hidden)

    def dtype(self, name: str) -> str:
        """Element type of x, y and the states."""
        return self.y if name == "y" else "float32"

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``."""
        if name == "w":
            return "int8" if self.quantized else "float32"
        return "int32" if name in ("start", "z") else "float32"
