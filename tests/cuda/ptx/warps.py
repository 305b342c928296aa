"""What the 32 lanes of a warp compute together: matrix products and shuffles.

Source: PTX ISA, "Matrix Fragments for mma.m8n8k16 and mma.m16n8k32", "ldmatrix", "shfl.sync".
"""

from __future__ import annotations

import numpy as np

from tests.cuda.ptx.errors import refuse

WARP = 32
LANES = np.arange(WARP)
GROUP, PLACE = LANES // 4, LANES % 4  # groupID and threadID_in_group of the ISA
PARTED = "is at an instruction of its whole warp without all of it"

# Rows and columns of the matrix that each lane holds, as (lanes, registers) of four bytes each:
# the first of them, as the others follow along k.
FRAGMENTS = {
    "m8n8k16": {"a": ((0, 0),), "b": (0,), "d": ((0, 0), (0, 1))},
    "m16n8k32": {
        "a": ((0, 0), (8, 0), (0, 16), (8, 16)),
        "b": (0, 16),
        "d": ((0, 0), (0, 1), (8, 0), (8, 1)),
    },
}
"""By shape: row and k of each register of a, k of each of b, row and column of each of d."""


def multiply_matrices(
    shape: str, a: list[np.ndarray], b: list[np.ndarray], c: list[np.ndarray]
) -> list[np.ndarray]:
    """Return d = a b + c of bytes, modulo 2^32.

    Parameters
    ----------
    shape
        As in "m16n8k32".
    a, b
        Registers, (warps, 32), signed if their bytes are.
    c
        Registers, (warps, 32), int32.
    """
    fragments = FRAGMENTS[shape]
    rows, columns, depth = (
        int(size) for size in shape[1:].replace("n", " ").replace("k", " ").split()
    )
    warps = len(c[0])
    left = np.zeros((warps, rows, depth), np.float32)
    right = np.zeros((warps, depth, columns), np.float32)
    byte = np.arange(4)
    for register, (row, k) in zip(a, fragments["a"], strict=True):
        left[:, (GROUP + row)[:, None], 4 * PLACE[:, None] + byte + k] = _bytes(register)
    for register, k in zip(b, fragments["b"], strict=True):
        right[:, 4 * PLACE[:, None] + byte + k, GROUP[:, None]] = _bytes(register)
    product = (left @ right).astype(np.int32)  # at most 32 * 255 * 128: exact in float32
    return [
        addend + product[:, GROUP + row, 2 * PLACE + column]
        for addend, (row, column) in zip(c, fragments["d"], strict=True)
    ]


def _bytes(register: np.ndarray) -> np.ndarray:
    kind = np.int8 if register.dtype.kind == "i" else np.uint8
    return np.ascontiguousarray(register).view(kind).reshape(*register.shape, 4)


def matrices(rows: np.ndarray) -> list[np.ndarray]:
    """Return what each lane gets of four matrices of 8 rows of 16 bytes: word t of its row g.

    ``rows`` are (lanes, 4) words, at the addresses that the lanes of whole warps give.
    """
    by_warp = rows.reshape(-1, 4, 8, 4)  # warp, matrix, row, word
    return [by_warp[:, matrix, GROUP, PLACE].reshape(-1) for matrix in range(4)]


def shuffle(
    mode: str, value: np.ndarray, operand: np.ndarray, clamp: np.ndarray, lanes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what the lanes read, whether their source is in range, and which lane that is.

    ``lanes`` are those of all blocks, one after the other, as are rows of ``value``.
    """
    lane = lanes % WARP
    segment, limit = (clamp >> 8) & 31, clamp & 31
    least = lane & segment
    most = least | (limit & ~segment & 31)
    wanted, is_inside = {
        "up": lambda: (lane - operand, lane - operand >= most),
        "down": lambda: (lane + operand, lane + operand <= most),
        "bfly": lambda: (lane ^ operand, (lane ^ operand) <= most),
        "idx": lambda: (
            least | (operand & ~segment & 31),
            (least | (operand & ~segment & 31)) <= most,
        ),
    }[mode]()
    source = lanes - lane + np.where(is_inside, wanted, lane)
    return value[source], is_inside, source


def mask_of(active: np.ndarray) -> np.ndarray:
    """Return for each lane which of its warp are active, as bits."""
    bits = active.reshape(-1, WARP).astype(np.uint64) << LANES.astype(np.uint64)
    return np.repeat(bits.sum(axis=1).astype(np.uint32), WARP)


def whole_warps(lanes: np.ndarray) -> None:
    """Raise a fault unless the lanes are all those of some warps."""
    counts = np.bincount(lanes // WARP)
    refuse(counts[lanes // WARP] != WARP, lanes, PARTED)
