"""Filters of which local variances are made stay in float: which do, and what is no variance."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.variances import REASON
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


Filter = Callable[[NetworkWriter, str, relax.Var], relax.Var]


def convolved(net: NetworkWriter, name: str, x: relax.Var, size: float = 9.0) -> relax.Var:
    """Return sums over windows of each channel, divided by ``size``."""
    w = relax.const(np.full((4, 1, 3, 3), 1 / size, "float32"))
    return net.emit(name, op.nn.conv2d(x, w, padding=[1, 1], groups=4))


def pooled(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    return net.emit(name, op.nn.avg_pool2d(x, (3, 3), padding=[1, 1]))


def divided(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    """Return means over windows that are smaller at the edges, as box filters are written."""
    counts = relax.const(np.arange(1, 17, dtype="float32").reshape(1, 1, 4, 4))
    return net.emit(name, op.divide(convolved(net, f"{name}/sum", x, 1.0), counts))


def of_four(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    return convolved(net, name, x, 4.0)


def rectified(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    return net.relu(name, convolved(net, f"{name}/conv", x))


def unfiltered(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    return x


def network(
    of_product: Filter, of_factor: Filter, *, both: bool = True, difference=op.subtract
) -> tvm.IRModule:
    """Return a difference of filtered products of two halves and products of filtered halves."""
    net = NetworkWriter((1, 3, 6, 6))
    image = net.relu("image", net.conv("image/conv", net.x, 8, 3))
    x, y = (
        net.emit(f"half{i}", op.strided_slice(image, [1], [4 * i], [4 * i + 4])) for i in range(2)
    )
    y = y if both else x
    over = of_product(net, "over", net.emit("product", op.multiply(x, y)))
    means = [of_factor(net, f"mean{i}", half) for i, half in enumerate((x, y))]
    square = net.emit("square", op.multiply(means[0], means[1] if both else means[0]))
    variance = net.emit("variance", difference(over, square))
    return net.module(net.conv("y", net.emit("shown", op.tanh(variance)), 4, 1))


def kept(mod) -> int:
    plan = annotate(normalized(mod)[0], QuantConfig())
    return sum(layer.reason == REASON for layer in plan.layers)


@pytest.mark.parametrize("mean", [convolved, pooled, divided])
@pytest.mark.parametrize(("both", "filters"), [(True, 3), (False, 2)])
def test_filters_of_variances_and_covariances_stay_in_float(mean, both: bool, filters: int):
    assert kept(network(mean, mean, both=both)) == filters


@pytest.mark.parametrize(
    ("of_product", "of_factor", "difference"),
    [
        (convolved, of_four, op.subtract),
        (convolved, pooled, op.subtract),
        (convolved, convolved, op.add),
        (unfiltered, convolved, op.subtract),
        (rectified, rectified, op.subtract),
    ],
    ids=["other weights", "another filter", "a sum", "no filter", "an activation"],
)
def test_what_is_no_variance_does_not(of_product: Filter, of_factor: Filter, difference):
    assert kept(network(of_product, of_factor, difference=difference)) == 0
