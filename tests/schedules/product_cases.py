"""Products of two activations and attention, as tests of all targets run them."""

from typing import Any

import numpy as np

from schedules.spec import Attention, Product

MASKS = {"none": None, "keys": (1, 1), "heads": (0, 1), "all": (0, 0)}
"""Whether a mask is broadcast over heads, over queries."""


def product_of(
    rows: int, columns: int, depth: int, *, heads: int = 2, turned: bool = False, **types: str
) -> Product:
    """a (n, rows, heads, depth) by b (n, columns, heads, depth), or (n, heads, depth, columns)."""
    size = heads * depth
    b_shape = (1, heads, depth, columns) if turned else (1, columns, heads, depth)
    b_steps = (depth * columns, 1, columns) if turned else (depth, size, 1)
    fields: dict[str, Any] = {"a": "uint8", "b": "uint8", "y": "uint8"} | types
    return Product(
        batch=1,
        heads=heads,
        rows=rows,
        columns=columns,
        depth=depth,
        a_shape=(1, rows, heads, depth),
        b_shape=b_shape,
        y_shape=(1, heads, rows, columns),
        a_strides=(0, rows * size, depth, size, 1),
        b_strides=(0, columns * size, *b_steps),
        y_strides=(0, heads * rows * columns, rows * columns, columns, 1),
        **fields,
    )


def attention_of(
    queries: int,
    keys: int,
    depth: int,
    width: int,
    *,
    heads: int = 2,
    mask: str = "none",
    **types: str,
) -> Attention:
    """Queries, keys and values (n, tokens, heads, depth): heads split off rows of channels."""
    fields: dict[str, Any] = {"q": "uint8", "k": "uint8", "v": "uint8", "y": "uint8"} | types
    shared = MASKS[mask]
    if shared is not None:
        over_heads, over_queries = shared
        shape = (1, 1 if over_heads else heads, 1 if over_queries else queries, keys)
        by_head = 0 if over_heads else shape[2] * keys
        strides = (0, shape[1] * shape[2] * keys, by_head, 0 if over_queries else keys, 1)
        fields |= {"mask_shape": shape, "mask_strides": strides}

    def _tokens(count: int, size: int) -> tuple[int, ...]:
        return (0, count * heads * size, size, heads * size, 1)

    return Attention(
        batch=1,
        heads=heads,
        queries=queries,
        keys=keys,
        depth=depth,
        width=width,
        q_shape=(1, queries, heads, depth),
        k_shape=(1, keys, heads, depth),
        v_shape=(1, keys, heads, width),
        y_shape=(1, queries, heads, width),
        q_strides=_tokens(queries, depth),
        k_strides=_tokens(keys, depth),
        v_strides=_tokens(keys, width),
        y_strides=_tokens(queries, width),
        **fields,
    )


def arrays_of(spec: Product | Attention, seed: int = 1) -> dict[str, np.ndarray]:
    """Return tensors and constants; every other seed has zero points in the middle of a type."""
    rng = np.random.default_rng(seed)
    arrays = {name: _tensor(rng, spec, name) for name in spec.tensors}
    named = [name for name in (*spec.tensors, "y") if name != "mask"]
    if spec.dtype(named[0]) == "float32":
        return arrays | {"clamp": np.array([-np.inf, np.inf], np.float32)}
    middle = [{"uint8": 128, "int8": 0, "float32": 0}[spec.dtype(name)] for name in named]
    offsets = rng.integers(-20, 20, len(named)) * (seed % 2)
    z = np.array(middle) + offsets * [spec.dtype(name) != "float32" for name in named]
    clamp = np.array([-60, 50], np.float32)
    if isinstance(spec, Product):
        m = np.array([40 / (74 * 74 * spec.depth**0.5)])
        return arrays | {"m": m.astype(np.float32), "z": z.astype(np.int32), "clamp": clamp}
    each = 3 / (74 * 74 * spec.depth**0.5)
    m_scores = (each * np.linspace(0.5, 1, spec.heads)).astype(np.float32)
    constants = {"m_scores": m_scores, "m": np.array([1.3], np.float32), "z": z.astype(np.int32)}
    return arrays | constants | {"clamp": clamp}


def _tensor(rng: np.random.Generator, spec: Product | Attention, name: str) -> np.ndarray:
    shape, dtype = spec.shape(name), spec.dtype(name)
    if dtype != "float32":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, shape).astype(dtype)
    values = rng.normal(size=shape).astype(np.float32)
    if name == "mask":
        values[rng.random(shape) < 0.3] = -np.inf
        if shape[2] > 1:
            values[:, :, 0] = -np.inf  # nothing is left of a query
    return values
