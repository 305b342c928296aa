"""NumPy reference of products of two activations and of attention."""

from __future__ import annotations

import math

import numpy as np

from schedules.reference.exact import clamp, fma, to_integer
from schedules.reference.scaling import factors, scale
from schedules.spec import Attention, Product, Strides
from schedules.spec.operator_spec import FLOAT32_MAX
from schedules.spec.product import EXP2_SERIES, LEAST_EXPONENT
from schedules.template import Arrays


def product(spec: Product, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y in memory; sums of floats are taken in float64 and rounded once."""
    batch = len(tensors["a"]) if not isinstance(spec.batch, int) else spec.batch
    a = matrices(tensors["a"], spec.a_strides, (batch, spec.heads, spec.rows, spec.depth))
    b = matrices(tensors["b"], spec.b_strides, (batch, spec.heads, spec.columns, spec.depth))
    if spec.a == "float32":
        y = clamp((a.astype(np.float64) @ _turned(b.astype(np.float64))), params["clamp"])
        y = y.astype(np.float32)
    else:
        z_a, z_b, z_y = params["z"]
        acc = _sums(a, z_a, _turned(b), z_b)
        y = scale(spec, acc, factors(spec, params, "m"), z_y, params["clamp"])
    return _in_memory(y, _shape(spec.y_shape, batch), spec.y_strides)


def attention(spec: Attention, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y in memory, bit for bit."""
    batch = len(tensors["q"]) if not isinstance(spec.batch, int) else spec.batch
    outer = (batch, spec.heads)
    q = matrices(tensors["q"], spec.q_strides, (*outer, spec.queries, spec.depth))
    k = matrices(tensors["k"], spec.k_strides, (*outer, spec.keys, spec.depth))
    v = matrices(tensors["v"], spec.v_strides, (*outer, spec.keys, spec.width))
    z_q, z_k, z_v, z_y = params["z"]
    acc = _sums(q, z_q, _turned(k), z_k)
    m = params["m_scores"].reshape(spec.heads, 1, 1)
    if spec.mask_strides is None:
        t = (acc - acc.max(-1, keepdims=True)).astype(np.float32) * m
    else:
        mask = matrices(tensors["mask"], spec.mask_strides, (*outer, spec.queries, spec.keys))
        s = fma(acc.astype(np.float32), m, mask * np.float32(math.log2(math.e)))
        t = s - np.maximum(s.max(-1, keepdims=True), np.float32(-FLOAT32_MAX))
    u = powers(t)
    total = np.maximum(u.sum(-1, keepdims=True, dtype=np.int32), 1)
    acc = _sums(u, np.zeros((), np.int32), v, z_v)
    mean = acc.astype(np.float32) / total.astype(np.float32)
    y = to_integer(mean * params["m"][0], z_y, params["clamp"], spec.y)
    return _in_memory(y, _shape(spec.y_shape, batch), spec.y_strides)


def powers(t: np.ndarray) -> np.ndarray:
    """Return uint8 ``rint(255 * 2**t)`` of float32 t, at most 0."""
    t = np.maximum(t, np.float32(LEAST_EXPONENT))
    n = np.rint(t)
    p = np.full_like(t, EXP2_SERIES[0])
    for coefficient in EXP2_SERIES[1:]:
        p = fma(p, t - n, np.array(coefficient, np.float32))
    bits = p.view(np.int32) + (n.astype(np.int32) << 23)
    return np.asarray(np.rint(bits.view(np.float32)), np.uint8)


def matrices(x: np.ndarray, strides: Strides, shape: tuple[int, ...]) -> np.ndarray:
    """Return ``x`` as (batch, head, row, column), read through ``strides``."""
    flat = np.ascontiguousarray(x).reshape(-1)
    steps = [step * flat.itemsize for step in strides[1:]]
    return np.lib.stride_tricks.as_strided(flat[strides[0] :], shape, steps)


def _sums(a: np.ndarray, z_a: np.ndarray, b: np.ndarray, z_b: np.ndarray) -> np.ndarray:
    """Return int32 ``(a - z_a) @ (b - z_b)``; float64 holds every sum exactly."""
    product = (a.astype(np.float64) - z_a) @ (b.astype(np.float64) - z_b)
    return np.asarray(product, np.int32)


def _turned(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-1, -2)


def _shape(shape: tuple[object, ...], batch: int) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else batch for size in shape)


def _in_memory(y: np.ndarray, shape: tuple[int, ...], strides: Strides) -> np.ndarray:
    memory = np.empty(shape, y.dtype)
    matrices_of = np.lib.stride_tricks.as_strided(
        memory.reshape(-1)[strides[0] :], y.shape, [step * y.itemsize for step in strides[1:]]
    )
    matrices_of[...] = y
    return memory
