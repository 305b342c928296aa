"""Which chains of reshapes and permutations are one rearrangement of an image."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.drop_expand import DropExpand
from relay_int8.graph.groups import find_groups
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
op = relax.op


def chain(*steps: relax.Expr) -> tuple[tvm.IRModule, list[str]]:
    """Return a network of ``steps`` on (1, 8, 4, 6), and the kinds of its groups."""
    net = NetworkWriter((1, 8, 4, 6))
    y = net.x
    for place, step in enumerate(steps):
        y = net.emit(f"step{place}", step(y))
    mod = net.module(y)
    return mod, [group.kind for group in find_groups(mod["main"])]


def reshaped(*shape: int):
    return lambda x: op.reshape(x, shape)


def permuted(*axes: int):
    return lambda x: op.permute_dims(x, axes)


CROP = (lambda x: op.strided_slice(x, [2, 3], [1, 0], [7, 11]),)
DEPTH_TO_SPACE = (reshaped(1, 2, 2, 2, 4, 6), permuted(0, 3, 4, 1, 5, 2), reshaped(1, 2, 8, 12))


@pytest.mark.parametrize(
    "steps",
    [
        (reshaped(1, 2, 4, 4, 6), permuted(0, 2, 1, 3, 4), reshaped(1, 8, 4, 6)),
        DEPTH_TO_SPACE,
        (*DEPTH_TO_SPACE, *CROP),
        (reshaped(1, 8, 2, 2, 3, 2), permuted(0, 3, 5, 1, 2, 4), reshaped(1, 32, 2, 3)),
    ],
)
def test_chain_is_one_group_with_the_same_numbers(steps):
    mod, kinds = chain(*steps)
    assert kinds == ["shuffle"]
    (group,) = find_groups(mod["main"])
    x = np.arange(192.0).reshape(1, 8, 4, 6)
    wanted = x
    for _, call in group.shuffle.members:
        name = call.op.name.removeprefix("relax.")
        if name == "reshape":
            wanted = wanted.reshape([int(size) for size in call.ty.shape])
        elif name == "permute_dims":
            wanted = wanted.transpose([int(axis) for axis in call.attrs.axes])
        else:
            wanted = wanted[:, :, 1:7, 0:11]
    np.testing.assert_array_equal(group.shuffle(x), wanted)


@pytest.mark.parametrize(
    ("steps", "kinds"),
    [
        # three axes: no image
        ((reshaped(8, 4, 6), permuted(0, 2, 1)), ["reshape", "transpose"]),
        # the batch moves
        ((reshaped(2, 4, 4, 6), permuted(1, 0, 2, 3)), ["reshape", "transpose"]),
        # joined across the border of two axes
        (
            (reshaped(1, 2, 4, 4, 6), permuted(0, 2, 1, 3, 4), reshaped(1, 16, 2, 6)),
            ["reshape", "transpose", "reshape"],
        ),
        # steps of a slice stay its own
        (
            (*DEPTH_TO_SPACE, lambda x: op.strided_slice(x, [2], [0], [8], [2])),
            ["shuffle", "slice"],
        ),
    ],
)
def test_other_chains_are_left_alone(steps, kinds):
    assert chain(*steps)[1] == kinds


def test_step_that_is_read_elsewhere_ends_the_chain():
    net = NetworkWriter((1, 8, 4, 6))
    cut = net.emit("cut", op.reshape(net.x, (1, 2, 4, 4, 6)))
    turned = net.emit("turned", op.permute_dims(cut, (0, 2, 1, 3, 4)))
    joined = net.emit("joined", op.reshape(turned, (1, 8, 4, 6)))
    mod = net.module(joined, turned)
    assert [group.kind for group in find_groups(mod["main"])] == ["reshape", "transpose", "reshape"]


def test_expanded_gate_is_broadcast_by_its_product():
    net = NetworkWriter((1, 8, 4, 6))
    mean = net.emit("mean", op.nn.avg_pool2d(net.x, (4, 6)))
    wide = net.emit("wide", op.broadcast_to(mean, (1, 8, 4, 6)))
    mod = DropExpand()(net.module(net.emit("y", op.multiply(wide, net.x))))
    *_, product = find_groups(mod["main"])
    assert [str(var.name) for var in product.inputs] == ["x", "mean"]
