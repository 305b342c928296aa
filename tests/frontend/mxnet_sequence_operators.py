"""MXNet's operators on sequences, indices and truth values, each beside NumPy's words for it.

Operator, attributes, shapes of data (an array is the data), reference of all of them.
"""

import numpy as np

from tests.frontend.mxnet_operators import ROWS, softmax

LENGTHS = np.array([3.0, 1.0], "float32")
CHOSEN = np.array([[2.0, 0.0, 7.0]], "float32")
MASK = np.array([[1.0, 0.0, 1.0, 1.0]], "float32")


def heads(packed, count, parts, part):
    """Return a part of every head as (batch * heads, sequence, channels)."""
    length, batch, width = packed.shape
    x = packed.reshape(length, batch, count, parts, width // count // parts)[:, :, :, part]
    return x.transpose(1, 2, 0, 3).reshape(batch * count, length, -1)


def scores(q, k):
    return q / np.sqrt(q.shape[-1]) @ k.transpose(0, 2, 1)


def joined(product, batch):
    matrices, length, depth = product.shape
    x = product.reshape(batch, matrices // batch, length, depth).transpose(2, 0, 1, 3)
    return x.reshape(length, batch, -1)


def before(x, lengths, axis):
    """Return which places along an axis come before the length of their sequence."""
    places = np.arange(x.shape[axis])
    return np.moveaxis(places[None] < lengths[:, None], 1, axis - 1 if axis else 0)


ATTENTION = [
    ("_contrib_interleaved_matmul_selfatt_qk", {"heads": 2}, [(4, 3, 12)],
     lambda x: scores(heads(x, 2, 3, 0), heads(x, 2, 3, 1))),
    ("_contrib_interleaved_matmul_selfatt_valatt", {"heads": 2}, [(4, 3, 12), (6, 4, 4)],
     lambda x, shares: joined(shares @ heads(x, 2, 3, 2), 3)),
    ("_contrib_interleaved_matmul_encdec_qk", {"heads": 2}, [(5, 3, 4), (4, 3, 8)],
     lambda q, kv: scores(heads(q, 2, 1, 0), heads(kv, 2, 2, 0))),
    ("_contrib_interleaved_matmul_encdec_valatt", {"heads": 2}, [(4, 3, 8), (6, 5, 4)],
     lambda kv, shares: joined(shares @ heads(kv, 2, 2, 1), 3)),
    ("_contrib_div_sqrt_dim", {}, [ROWS], lambda x: x / 12**0.5),
    ("softmax", {"use_length": "True", "axis": -1}, [(2, 4), LENGTHS],
     lambda x, n: softmax(np.where(np.arange(4) < n[:, None], x, -np.inf), 1)),
    ("masked_softmax", {"axis": -1, "temperature": 2}, [(3, 4), MASK],
     lambda x, mask: softmax(np.where(mask > 0, x / 2, -np.inf), 1)),
    ("SequenceMask", {"use_sequence_length": "True", "axis": 1, "value": -2}, [(2, 4, 3), LENGTHS],
     lambda x, n: np.where((np.arange(4) < n[:, None])[..., None], x, -2)),
    ("SequenceMask", {"use_sequence_length": "True"}, [(4, 2, 3), LENGTHS],
     lambda x, n: np.where((np.arange(4)[:, None] < n)[..., None], x, 0)),
    ("SequenceMask", {}, [ROWS], lambda x: x),
]  # fmt: skip
INDICES = [
    ("take", {"axis": 1}, [ROWS, CHOSEN], lambda x, i: x[:, i.astype(int)]),
    ("take", {"mode": "wrap"}, [ROWS, CHOSEN], lambda x, i: x[i.astype(int) % 4]),
    ("Embedding", {"input_dim": 4, "output_dim": 12}, [CHOSEN, ROWS],
     lambda i, table: table[i.astype(int).clip(0, 3)]),
    ("gather_nd", {}, [ROWS, np.array([[2, 0], [5, 1]], "float32")],
     lambda x, i: x[tuple(i.astype(int))]),
    ("one_hot", {"depth": 5, "on_value": 3, "off_value": -1}, [CHOSEN],
     lambda i: np.where(np.arange(5) == i[..., None], 3.0, -1.0)),
    ("pick", {"axis": 1}, [(3, 8), CHOSEN[0]], lambda x, i: x[np.arange(3), i.astype(int)]),
    ("pick", {"axis": 0, "keepdims": "True"}, [(8, 3), CHOSEN[0]],
     lambda x, i: x[i.astype(int), np.arange(3)][None]),
    ("argmax", {"axis": 1}, [ROWS], lambda x: x.argmax(1)),
    ("argmin", {"axis": -1, "keepdims": "True"}, [ROWS], lambda x: x.argmin(1)[:, None]),
    ("_contrib_arange_like", {"axis": 1, "start": 2}, [ROWS], lambda x: 2.0 + np.arange(12)),
    ("_contrib_arange_like", {"step": 0.5}, [ROWS], lambda x: np.arange(48).reshape(4, 12) / 2),
]  # fmt: skip
LOGIC = [
    *[(name, {}, [ROWS, (1, 12)], lambda a, b, op=op: op(a, b)) for name, op in (
        ("broadcast_equal", np.equal), ("broadcast_not_equal", np.not_equal),
        ("broadcast_greater", np.greater), ("broadcast_greater_equal", np.greater_equal),
        ("broadcast_lesser", np.less), ("broadcast_lesser_equal", np.less_equal),
        ("broadcast_logical_and", np.logical_and), ("broadcast_logical_or", np.logical_or),
        ("broadcast_logical_xor", np.logical_xor),
    )],
    ("broadcast_mod", {}, [ROWS, (1, 12)], np.mod),
    ("_greater", {}, [ROWS, ROWS], np.greater),
    ("_lesser_scalar", {"scalar": "0.25"}, [ROWS], lambda x: x < 0.25),
    ("logical_not", {}, [MASK], np.logical_not),
    ("where", {}, [MASK, (3, 4), (3, 4)], lambda c, a, b: np.where(c, a, b)),
    ("where", {}, [MASK[0], (4, 3), (4, 3)], lambda c, a, b: np.where(c[:, None], a, b)),
]  # fmt: skip
SEQUENCES = [*ATTENTION, *INDICES, *LOGIC]
