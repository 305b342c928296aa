"""One step of a recurrent layer: expressions of one lane or a vector of lanes.

The formulas are those of ``schedules.spec.recurrence``; kernels differ in how they multiply.

Exact:  no product feeds a sum but by fma, and no division by a constant, which may be a product,
        but by ``STATE_STEPS``, which is no power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import ramp
from schedules.bodies.exponential import exp
from schedules.bodies.matrices import depth_refusal
from schedules.bodies.vectors import broadcast, cast, fma, lanes, rint, splat
from schedules.spec import Recurrence
from schedules.spec.functions import LEAST_EXP_ARGUMENT
from schedules.spec.recurrence import LEAST_STATE, STATE_STEPS, Cell

Held = Literal["h", "c", "reset", "update"]
"""What is kept of each element of the state; the last two by ``gru_state`` alone."""


@dataclass(frozen=True, kw_only=True)
class Elements:
    """Elements of the state that are computed together, lanes of one expression.

    Parameters
    ----------
    inputs
        Gate -> what the step's input adds.
    added
        ``(gate, b)`` -> b plus the products of the gate and the state.
    bias
        -> that of ``gru``.
    load, store
        Read and write what is kept.
    scope
        Of memory for values: "local" is a register on GPUs; on CPUs, where it would be fetched from
        a pool, that is "global".
    """

    inputs: Callable[[int], Expr]
    added: Callable[[int, Expr], Expr]
    bias: Callable[[], Expr]
    load: Callable[[Held], Expr]
    store: Callable[[Held, Expr], None]
    scope: str

    def gate(self, index: int) -> Expr:
        """Return inputs and products of a gate."""
        return self.added(index, self.inputs(index))

    def sigmoid(self, x: Expr) -> Expr:
        """Return the logistic function of float32 lanes; keeps parts of it."""
        x, one, zero = self.kept(x), _number(1, x), _number(0, x)
        e = self._exponential(tirx.min(x, zero - x))
        return self.kept(tirx.Select(x >= zero, one, e) / (one + e))

    def tanh(self, x: Expr) -> Expr:
        """Return the hyperbolic tangent of float32 lanes; keeps parts of it."""
        x, one, zero = self.kept(x), _number(1, x), _number(0, x)
        negative = tirx.min(x, zero - x)
        e = self._exponential(negative + negative)
        t = self.kept((one - e) / (one + e))
        return self.kept(tirx.Select(x >= zero, t, zero - t))

    def kept(self, value: Expr) -> Expr:
        """Return lanes from memory: TVM 0.27 puts the value of a bound variable in its place.

        Of functions of functions that makes more code than LLVM can take.
        """
        count, dtype = lanes(value), str(value.ty.dtype.with_lanes(1))
        buffer = T.sblock_alloc_buffer(int64((count,)), dtype, scope=self.scope, layout=None)
        T.buffer_store(buffer, value, [ramp(count)])
        return T.Bind(buffer[ramp(count)])

    def _exponential(self, a: Expr) -> Expr:
        least = _number(LEAST_EXP_ARGUMENT, a)
        return self.kept(exp(self.kept(tirx.max(a, least)), held=self.kept))


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Gates that multiply the same tensor, ``multiplied``, and what is made of them."""

    gates: range
    emit: Callable[[Elements], None]
    multiplied: Held = "h"


def refuses(spec: Recurrence) -> str | None:
    """Say why no kernel computes ``spec``, or None."""
    return depth_refusal(spec.hidden) if spec.quantized else None


def added(acc: Expr, scale: Expr, step: Expr, addend: Expr) -> Expr:
    """Return ``addend`` plus sums of integer products; a ``step`` of the state is worth that."""
    return fma(cast(acc, "float32") * scale, broadcast(step, lanes(acc)), addend)


def _lstm(at: Elements) -> None:
    i, f, g, o = (at.gate(index) for index in range(4))
    c = at.kept(fma(at.sigmoid(f), at.load("c"), at.sigmoid(i) * at.tanh(g)))
    at.store("c", c)
    at.store("h", at.sigmoid(o) * at.tanh(c))


def _gru(at: Elements) -> None:
    r, z = (at.sigmoid(at.gate(index)) for index in (0, 1))
    n = at.tanh(fma(r, at.added(2, at.bias()), at.inputs(2)))
    h = at.load("h")
    at.store("h", fma(z, h - n, n))


def _gru_gates(at: Elements) -> None:
    r, z = (at.sigmoid(at.gate(index)) for index in (0, 1))
    at.store("update", z)
    at.store("reset", r * at.load("h"))


def _gru_content(at: Elements) -> None:
    n, h = at.tanh(at.gate(2)), at.load("h")
    at.store("h", fma(at.load("update"), h - n, n))


def _rnn(at: Elements) -> None:
    at.store("h", at.tanh(at.gate(0)))


PHASES: dict[Cell, tuple[Phase, ...]] = {
    "lstm": (Phase(gates=range(4), emit=_lstm),),
    "gru": (Phase(gates=range(3), emit=_gru),),
    "gru_state": (
        Phase(gates=range(2), emit=_gru_gates),
        Phase(gates=range(2, 3), emit=_gru_content, multiplied="reset"),
    ),
    "rnn": (Phase(gates=range(1), emit=_rnn),),
}
"""Of each cell, what a step consists of."""


def held(spec: Recurrence) -> tuple[Held, ...]:
    """Return what is kept of each element of the state."""
    return ("h", "c", "reset", "update") if spec.cell == "gru_state" else ("h", "c")


def magnitude(h: Expr) -> Expr:
    """Return ``|h|``."""
    return tirx.max(h, _number(0, h) - h)


def largest(magnitudes: Expr) -> Expr:
    """Return what a state is scaled by, of the largest magnitude in it."""
    return tirx.max(magnitudes, tirx.const(LEAST_STATE, "float32"))


def step_of(top: Expr) -> Expr:
    """Return what a step of a state is worth."""
    return top / tirx.const(STATE_STEPS, "float32")


def rounded(h: Expr, top: Expr) -> Expr:
    """Return elements of a state as int32 steps."""
    inverse = tirx.const(STATE_STEPS, "float32") / top
    return rint(h * broadcast(inverse, lanes(h)))


def _number(value: float, like: Expr) -> Expr:
    return splat(value, "float32", lanes(like))
