"""How the matrices of a product are taken as batch and heads."""

import numpy as np
import pytest

from relay_int8.graph.matrices import Outer, Positions, outer_of

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("dims", [(2, 3, 5, 5), (6, 5, 5)], ids=["apart", "one_axis"])
def test_batch_and_heads_may_be_one_axis(dims):
    """PyTorch decomposes attention into products of (batch * heads) matrices."""
    first = (np.arange(2)[:, None] * 100 + np.arange(3) * 4).reshape(-1)
    positions = [Positions(first=first, row=12, column=1)]
    assert outer_of([dims], [(2, 5, 12)], positions) == Outer(batch=2, heads=3)


def test_matrices_at_uneven_steps_are_none():
    positions = [Positions(first=np.array([0, 1, 5, 7]), row=12, column=1)]
    assert outer_of([(4, 5, 5)], [(2, 5, 12)], positions) is None
