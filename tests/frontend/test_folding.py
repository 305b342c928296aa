"""What is known while a file is read: results of constants, and those without elements."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.folding import folded
from relay_int8.graph.dataflow import constant

pytestmark = pytest.mark.fast


def test_what_is_computed_of_no_elements_is_known():
    """As an Emformer without memory bounds its memory."""
    memory = relax.Var("memory", relax.TensorType((0, 1, 32), "float32"))
    found = folded(relax.op.clip(memory, -10, 10))
    assert found is not None
    assert constant(found).shape == (0, 1, 32)
    assert constant(found).dtype == np.float32


def test_elements_that_join_none_are_not_known():
    memory = relax.Var("memory", relax.TensorType((0, 4), "float32"))
    x = relax.Var("x", relax.TensorType((2, 4), "float32"))
    assert folded(relax.op.concat([memory, x], 0)) is None
    assert folded(relax.op.clip(x, -10, 10)) is None
