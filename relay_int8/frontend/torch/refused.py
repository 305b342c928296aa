"""What is said of operators that are not read: why, and whether PyTorch can write others."""

from __future__ import annotations

from collections.abc import Collection

from relay_int8.frontend.importing import RANDOM_NUMBERS

# Each was exported by PyTorch 2.13, refused as it is, and equal to PyTorch when decomposed.
NAMES = "block_diag cartesian_prod dstack linalg_matrix_power logspace trapezoid vander"
RANDOM_NAMES = (
    "bernoulli exponential multinomial normal poisson rand rand_like randint randint_like randn "
    "randn_like randperm uniform"
)
DECOMPOSABLE = frozenset(f"aten.{name}" for name in NAMES.split())
RANDOM = frozenset(f"aten.{name}" for name in RANDOM_NAMES.split())
"""Operators whose results no two runs share."""


def reasons(missing: Collection[str]) -> dict[str, str]:
    """Return why operators are not known, as far as there is more to say."""
    return {operator: RANDOM_NUMBERS for operator in missing if operator in RANDOM}


def advice(missing: Collection[str]) -> str:
    """Return what to do about operators that are not read."""
    helped = [operator for operator in missing if operator in DECOMPOSABLE]
    write = "program.run_decompositions() before torch.export.save writes"
    other = "export the model without them, or cut it before them"
    if not helped:
        return f"program.run_decompositions() is not known to help: {other}"
    if len(helped) == len(missing):
        return f"{write} them in operators that are read"
    return f"{write} {', '.join(helped)} in operators that are read; of the others, {other}"
