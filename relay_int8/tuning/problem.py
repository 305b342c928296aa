"""The problem that a candidate must solve before its time counts: hard inputs, right answer.

Activations cover their whole type and contain its smallest and largest value; constants are those
of :mod:`relay_int8.tuning.problem_constants`. Outputs start as a canary that differs from the right
answer everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from relay_int8.tuning.problem_constants import Z_X, constants, values_of_type
from schedules.reference.kernels import reference
from schedules.reference.products import matrices
from schedules.space import Kernel
from schedules.spec import (
    Attention,
    Conv2d,
    Dense,
    Pool2d,
    Product,
    Quantize,
    Recurrence,
    Softmax,
    Spec,
)
from schedules.template import Arrays

SEED = 20
FLOAT_TOLERANCE = 1e-5  # of the largest output: float sums depend on their order


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Arguments of a kernel as they lie in memory, y's canary, and logical y.

    The last ``constant_bytes`` of the arguments are constants of the network.
    """

    arguments: tuple[np.ndarray, ...]
    constant_bytes: int
    canary: np.ndarray
    expected: np.ndarray
    unpack: Callable[[np.ndarray], np.ndarray]
    exact: bool

    def fault(self, y: np.ndarray) -> str | None:
        """Say what is wrong with ``y``, as it lies in memory, or None."""
        actual = self.unpack(y)
        wrong = actual != self.expected
        if not self.exact:
            bound = FLOAT_TOLERANCE * float(np.abs(self.expected).max(initial=1.0))
            wrong = ~(np.abs(actual - self.expected) <= bound)
        if not wrong.any():
            return None
        index = tuple(int(axis[0]) for axis in np.nonzero(wrong))
        return (
            f"{int(wrong.sum())} of {wrong.size} outputs are wrong, the first at {index}: "
            f"{actual[index]}, not {self.expected[index]}"
        )


def problem(kernel: Kernel, seed: int = SEED) -> Problem:
    """Return the problem of a kernel whose sizes are all known."""
    spec, layouts, rng = kernel.spec, kernel.layouts, np.random.default_rng(seed)
    tensors = {
        name: values_of_type(rng, spec.shape(name), spec.dtype(name)) for name in spec.tensors
    }
    if isinstance(spec, Quantize):  # multiples of half a step; 5 % leave the type
        tensors = {name: np.rint(x * 128) / np.float32(32) for name, x in tensors.items()}
    if isinstance(spec, Softmax):
        shares = _with_quarters(np.moveaxis(tensors["x"], spec.axis, -1))
        tensors = {"x": np.ascontiguousarray(np.moveaxis(shares, -1, spec.axis))}
    if isinstance(spec, Attention):
        tensors["q"] = _with_equal_scores(spec, tensors["q"])
    if isinstance(spec, Product) and spec.a != "float32":
        _make_powers(spec, tensors)
    params = constants(spec, tensors, rng)
    packed = kernel.template.pack(spec, params)
    expected = reference(spec, tensors, params)
    inputs = [
        layout.pack(tensors[n]) for n, layout in zip(spec.tensors, layouts.inputs, strict=True)
    ]
    arrays = [np.ascontiguousarray(packed[name]) for name in spec.params]
    return Problem(
        arguments=(*inputs, *arrays),
        constant_bytes=sum(array.nbytes for array in arrays),
        canary=layouts.output.pack(_canary(expected)),
        expected=expected,
        unpack=lambda y: layouts.output.unpack(y, expected.shape),
        exact=not _rounds_sums(spec),
    )


def _with_quarters(x: np.ndarray) -> np.ndarray:
    """Return rows of which every fourth has four equal values, and others that vanish."""
    rows = x.reshape(-1, x.shape[-1]).copy()
    rows[::4] = -np.inf
    rows[::4, :4] = 0
    return rows.reshape(x.shape)


def _with_equal_scores(spec: Attention, q: np.ndarray) -> np.ndarray:
    """Return queries of which the first quarter is zero: they give the mean of all values."""
    flat = q.reshape(-1).copy()
    flat[: flat.size // 4] = Z_X[spec.q]
    return flat.reshape(q.shape)


def _make_powers(spec: Product, tensors: Arrays) -> None:
    """Make the first sums powers of two, one of which is half a step of y."""
    outer = (len(tensors["a"]) if not isinstance(spec.batch, int) else spec.batch, spec.heads)
    a = matrices(tensors["a"], spec.a_strides, (*outer, spec.rows, spec.depth))
    b = matrices(tensors["b"], spec.b_strides, (*outer, spec.columns, spec.depth))
    count = min(spec.rows, 8)
    a[..., :count, :] = Z_X[spec.a]
    a[..., :count, 0] = Z_X[spec.a] + 2 ** np.arange(count)
    b[..., 0, 0] = Z_X[spec.b] + 64


def _rounds_sums(spec: Spec) -> bool:
    if isinstance(spec, Product):
        return spec.a == "float32"
    if isinstance(spec, Recurrence):
        return not spec.quantized
    return isinstance(spec, Conv2d | Dense | Pool2d) and spec.x == "float32"


def _canary(expected: np.ndarray) -> np.ndarray:
    if expected.dtype == np.float32:
        return np.full_like(expected, np.nan)
    return np.asarray(~expected)
