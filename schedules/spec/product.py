"""Products of two activations, and attention, which is two of them around a softmax.

Operands lie in memory as their producers wrote them. Heads that are split off a row of channels, a
transposition, a window cut out of an image move no byte: they are steps through that memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import DType, OperatorSpec, QType, Shape, Size, static_size
from schedules.spec.requantizing import Requantizing

Strides = tuple[int, int, int, int, int]
"""Where a matrix of each batch and head lies, in elements of the row-major tensor: where the first
one begins, then the steps of batch, head, row and column; 0 along an axis that is broadcast."""

MOST_DEPTH = 16512
"""Products of bytes that are summed: 255 * 255 * MOST_DEPTH < 2**30."""

EXP2_SERIES = tuple(255 * math.log(2) ** k / math.factorial(k) for k in (4, 3, 2, 1, 0))
"""Of 255 * 2**f, highest power first: within a hundredth where |f| <= 1/2."""
LEAST_EXPONENT = -126.0
MASKED_SCORE = -(1 << 30)
"""The sum of products in place of one that does not count."""


@dataclass(frozen=True, kw_only=True)
class Product(Requantizing):
    """``y[b, h, i, j] = sum over k of a[b, h, i, k] * b[b, h, j, k]``: the rows of two matrices.

    Integers: ``acc = sum (a - z_a) * (b - z_b)`` in int32, ``y = requantize(acc, m)``.
    float32: y is the sum, ascending over k, clamped.

    Params: m float32 (1,), z int32 (3,) = z_a, z_b, z_y, clamp (2,); of floats clamp alone.
    ``a_shape``, ``b_shape`` and ``y_shape`` are of the tensors in memory. ``a_strides`` step by row
    and element of a row, as do ``b_strides``; every element of y is written once.
    """

    kind: ClassVar[str] = "product"
    batch: Size
    heads: int
    rows: int
    columns: int
    depth: int
    a_shape: Shape
    b_shape: Shape
    y_shape: Shape
    a_strides: Strides
    b_strides: Strides
    y_strides: Strides
    a: DType
    b: DType
    y: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("a", "b")

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("clamp",) if self.a == "float32" else (*self.scaled_by("m"), "z", "clamp")

    @property
    def multiplications(self) -> int:
        """How many products it sums up."""
        return static_size(self.batch) * self.heads * self.rows * self.columns * self.depth

    def shape(self, name: str) -> Shape:
        """Shape of activation ``name`` in memory."""
        return {"a": self.a_shape, "b": self.b_shape, "y": self.y_shape}[name]


@dataclass(frozen=True, kw_only=True)
class Attention(OperatorSpec):
    """``softmax(q k' + mask) v``: each query's mean of values, weighted by its likeness to keys.

    With ``acc[i, j] = sum (q[i] - z_q) * (k[j] - z_k)`` in int32, and everything else float32, one
    rounding an operation:

    - without a mask ``t = float32(acc - max over j of acc) * m_scores``, that of the head;
    - with one ``s = fma(float32(acc), m_scores, mask * log2(e))``, ``t = s - max over j of s``,
      where that maximum is -FLOAT32_MAX at least;
    - ``u = rint(255 * 2**t)``, uint8: t is LEAST_EXPONENT at least, ``n = rint(t)``, p by fma from
      EXP2_SERIES of ``t - n``, n added to its exponent bits;
    - ``y = requantize((sum u * (v - z_v)) / max(sum u, 1), m)``: sums in int32, their quotient in
      float32.

    So probabilities are integers of a scale of their own for each query, and all masked out give 0.

    Params: m_scores float32 (heads,), log2(e) included; m float32 (1,); z int32 (4,) = z_q, z_k,
    z_v, z_y; clamp float32 (2,). Queries by depth, keys by depth, values by ``width``; the strides
    of ``v`` step by key and element. ``mask`` is float32.
    """

    kind: ClassVar[str] = "attention"
    batch: Size
    heads: int
    queries: int
    keys: int
    depth: int
    width: int
    q_shape: Shape
    k_shape: Shape
    v_shape: Shape
    y_shape: Shape
    q_strides: Strides
    k_strides: Strides
    v_strides: Strides
    y_strides: Strides
    mask_shape: Shape | None = None
    mask_strides: Strides | None = None
    q: QType
    k: QType
    v: QType
    y: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("q", "k", "v", *(("mask",) if self.mask_shape is not None else ()))

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("m_scores", "m", "z", "clamp")

    @property
    def multiplications(self) -> int:
        """How many products it sums up."""
        scores = static_size(self.batch) * self.heads * self.queries * self.keys
        return scores * (self.depth + self.width)

    def shape(self, name: str) -> Shape:
        """Shape of activation ``name`` in memory."""
        shapes = {"q": self.q_shape, "k": self.k_shape, "v": self.v_shape, "y": self.y_shape}
        return self.mask_shape or () if name == "mask" else shapes[name]

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32" if name == "mask" else super().dtype(name)
