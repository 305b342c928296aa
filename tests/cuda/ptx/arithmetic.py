"""What an arithmetic instruction computes, in pure NumPy: a row of the table for each opcode.

Only what is rounded as IEEE 754 says has a meaning here: approximations and flushed denormals, which
differ from GPU to GPU, are unknown.

Source: PTX ISA, chapter "Instruction Set".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.cuda.ptx import bits, byte_products, comparisons, conversions, sums
from tests.cuda.ptx.errors import UnknownPtxError
from tests.cuda.ptx.operation import Modifiers, Operation


def operation(name: str, modifiers: Modifiers) -> Operation:
    """Return what an instruction computes.

    Raises
    ------
    UnknownPtxError
        If the table has none of that name, or it has another meaning with these modifiers.
    """
    try:
        return OPERATIONS[name](modifiers)
    except (KeyError, ValueError, IndexError) as error:
        raise UnknownPtxError(f"no meaning of {'.'.join((name, *modifiers))} is known") from error


OPERATIONS: dict[str, Callable[[Modifiers], Operation]] = {
    "mov": sums.same(lambda a: a, 1),
    "add": sums.same(np.add, 2),
    "sub": sums.same(np.subtract, 2),
    "neg": sums.same(np.negative, 1),
    "abs": sums.same(np.abs, 1),
    "mul": sums.mul,
    "mad": sums.mad,
    "fma": sums.fma,
    "div": sums.divide,
    "rem": sums.same(np.fmod, 2),
    "sqrt": sums.rounded_unary(np.sqrt),
    "rcp": sums.rounded_unary(np.reciprocal),
    "min": sums.extreme(np.fmin, np.bitwise_or),
    "max": sums.extreme(np.fmax, np.bitwise_and),
    "and": sums.same(np.bitwise_and, 2),
    "or": sums.same(np.bitwise_or, 2),
    "xor": sums.same(np.bitwise_xor, 2),
    "not": bits.invert,
    "shl": bits.shift(left=True),
    "shr": bits.shift(left=False),
    "shf": bits.funnel,
    "prmt": bits.permute_bytes,
    "bfe": bits.field,
    "bfi": bits.insert,
    "lop3": bits.logic,
    "copysign": bits.copy_sign,
    "popc": bits.population,
    "dp4a": byte_products.dp4a,
    "dp2a": byte_products.dp2a,
    "setp": comparisons.set_predicate,
    "selp": comparisons.select,
    "cvt": conversions.convert,
}
