"""The table of docs/kl.md is what the methods say today."""

from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import relay_int8
from relay_int8.calibration import METHODS, Histogram, Range

PAGE = Path(relay_int8.__file__).parents[1] / "docs" / "kl.md"
VARIANTS = [name for name in METHODS if name.startswith("kl-") and "onepass" not in name]


def tensors():
    """Return four tensors of quantiles, the same everywhere: no random numbers."""
    p = (np.arange(100_000) + 0.5) / 100_000
    normal = np.array([NormalDist().inv_cdf(share) for share in p])
    laplace = np.sign(p - 0.5) * -np.log(1 - 2 * np.abs(p - 0.5))
    heavy = (2 * p - 1) / np.sqrt(2 * p * (1 - p))  # Student's t, two degrees of freedom
    sparse = np.where(p > 0.97, -np.log(1 - (p - 0.97) / 0.03), 0)
    arrays = (normal, laplace, heavy, np.maximum(normal, 0), sparse)
    return [array.astype(np.float32) for array in arrays]


def share(name, values):
    """Return T as a share of max|x|."""
    method, scheme = METHODS[name], "u8" if values.min() >= 0 else "s8"
    grid = method.grid(scheme, Range(values.min(), values.max(), 1))
    zeros = int(np.sum(values == 0)) if method.counts_zeros else 0
    found = Histogram(grid, Histogram.of(values, grid).counts, zeros)
    return min(method.thresholds(found, scheme)[1] / float(np.abs(values).max()), 1.0)


def rows():
    data = tensors()
    return [
        f"| `{name}` | " + " | ".join(f"{share(name, values):.2f}" for values in data) + " |"
        for name in VARIANTS
    ]


def test_the_page_shows_what_the_methods_say():
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("| `kl-")]
    expected = rows()
    assert found[: len(expected)] == expected, "put these rows there:\n" + "\n".join(expected)


@pytest.mark.fast
def test_the_page_names_every_variant():
    text = PAGE.read_text()
    assert len(VARIANTS) == 6
    assert all(f"`{name}`" in text for name in VARIANTS)
