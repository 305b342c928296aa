"""Operators that are not read, and that PyTorch itself can write in ones that are."""

from __future__ import annotations

from collections.abc import Collection

# Each was exported by PyTorch 2.13, refused as it is, and equal to PyTorch when decomposed.
NAMES = "block_diag cartesian_prod dstack linalg_matrix_power logspace trapezoid vander"
DECOMPOSABLE = frozenset(f"aten.{name}" for name in NAMES.split())


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
