"""What reasons for computing in float have in common."""

from __future__ import annotations


def magnified(rounded: str, result: str, times: float, most: float) -> str:
    """Say by how much the rounding of something exceeds that of a result, in squared errors."""
    return (
        f"rounding {rounded} to 8 bits would add {times:.2g} times the squared error of rounding "
        f"{result}; the most is {most:.2g}"
    )
