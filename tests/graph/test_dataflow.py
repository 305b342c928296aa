"""Calls that are written anew."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from relay_int8.graph.dataflow import dtype, shape, with_arguments

pytestmark = pytest.mark.fast


@pytest.fixture
def call():
    x = relax.Var("x", relax.TensorType((1, 2, 5, 5), "float32"))
    w = relax.const(np.zeros((3, 2, 3, 3), np.float32))
    return relax.BlockBuilder().normalize(relax.op.nn.conv2d(x, w))


def test_a_result_keeps_its_type_where_arguments_keep_theirs(call):
    other = relax.Var("y", relax.TensorType((1, 2, 5, 5), "float32"))
    new = with_arguments(call, [other, call.args[1]])
    assert new.args[0].same_as(other)
    assert tvm_ffi.structural_equal(new.ty, call.ty)


def test_a_result_of_other_types_is_inferred(call):
    other = relax.Var("y", relax.TensorType((4, 2, 9, 5), "float16"))
    w = relax.const(np.zeros((3, 2, 3, 3), np.float16))
    new = relax.BlockBuilder().normalize(with_arguments(call, [other, w]))
    assert shape(new) == (4, 3, 7, 3) and dtype(new) == "float16"


def test_open_sizes_are_told_apart(call):
    sizes = [tvm.tirx.Var("n", "int64") for _ in range(2)]
    xs = [relax.Var("x", relax.TensorType((size, 2, 5, 5), "float32")) for size in sizes]
    of_first = relax.BlockBuilder().normalize(with_arguments(call, [xs[0], call.args[1]]))
    of_second = relax.BlockBuilder().normalize(with_arguments(of_first, [xs[1], call.args[1]]))
    assert shape(of_second)[0].same_as(sizes[1])
