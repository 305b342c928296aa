"""read_functions: the tensors whose ranges are chosen behind a function."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.functions import read_functions
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def test_functions_are_those_of_tensors_that_nothing_else_reads():
    net = NetworkWriter()
    a = net.conv("a", net.x, 8, 3)
    b = net.emit("b", relax.op.sin(a))
    c = net.conv("c", b, 8, 1)
    d = net.conv("d", net.emit("d/sin", relax.op.sin(c)), 8, 1)  # c has another reader
    mod = net.module(net.conv("y", net.emit("e", relax.op.add(d, c)), 4, 1))
    plan = annotate(mod, QuantConfig())
    found = read_functions(mod["main"], plan)
    assert set(found) == {"a"}
    np.testing.assert_allclose(found["a"](np.array([-1.0, 2.0])), np.sin([-1, 2]))


def test_a_function_in_float_reads_no_integers():
    net = NetworkWriter()
    a = net.conv("a", net.x, 8, 3)
    mod = net.module(net.conv("y", net.emit("b", relax.op.tanh(a)), 4, 1))
    plan = annotate(mod, QuantConfig(exclude=("b",)))
    assert read_functions(mod["main"], plan) == {}
