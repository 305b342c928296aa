"""Coverage counts every product, also those that stay in float: of two activations, of odd ranks."""

import math

import numpy as np
import pytest
from onnx import helper
from tvm import relax

import relay_int8
from relay_int8.graph.contractions import multiply_accumulates
from tests.onnx_models import model

pytestmark = pytest.mark.fast


def tensor(*dims):
    return relax.Var("x", relax.TensorType(dims, "float32"))


def typed(call):
    return relax.BlockBuilder().normalize(call)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((5, 7), (7, 3), 5 * 7 * 3),
        ((7,), (7, 3), 7 * 3),
        ((5, 7), (7,), 5 * 7),
        ((7,), (7,), 7),
        ((2, 5, 7), (2, 7, 3), 2 * 5 * 7 * 3),
        ((2, 4, 5, 7), (2, 4, 7, 3), 2 * 4 * 5 * 7 * 3),
        ((1, 2, 4, 5, 7), (6, 1, 1, 7, 3), 6 * 2 * 4 * 5 * 7 * 3),
    ],
)
def test_matrix_products_of_any_rank(a, b, expected):
    assert multiply_accumulates(typed(relax.op.matmul(tensor(*a), tensor(*b)))) == expected


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ij,jk->ik", [(2, 3), (3, 5)], 30),
        ("ij,jk", [(2, 3), (3, 5)], 30),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)], 2 * 3 * 4 * 6 * 5),
        ("i,i->", [(4,), (4,)], 4),
        ("ij,ij->ij", [(2, 3), (2, 3)], 0),
        ("ij->ji", [(2, 3)], 0),
        ("ij->i", [(2, 3)], 0),
        ("ij,jk,kl->il", [(2, 3), (3, 5), (5, 7)], 2 * 2 * 3 * 5 * 7),
        ("...ij,...jk->...ik", [(6, 2, 3), (6, 3, 5)], 6 * 30),
        ("...ij,jk->...ik", [(4, 6, 2, 3), (3, 5)], 24 * 30),
    ],
)
def test_einsums(equation, shapes, expected):
    call = relax.op.einsum(tuple(tensor(*dims) for dims in shapes), equation)
    assert multiply_accumulates(call) == expected


def test_convolutions_of_any_rank_and_layout():
    nn = relax.op.nn
    assert (
        multiply_accumulates(typed(nn.conv1d(tensor(1, 6, 9), tensor(4, 3, 3), groups=2)))
        == 4 * 7 * 9
    )
    conv3d = typed(nn.conv3d(tensor(1, 2, 5, 5, 5), tensor(4, 2, 3, 3, 3)))
    assert multiply_accumulates(conv3d) == 4 * 27 * 2 * 27
    rows = nn.conv2d(
        tensor(1, 6, 6, 2), tensor(4, 3, 3, 2), data_layout="NHWC", kernel_layout="OHWI"
    )
    assert multiply_accumulates(typed(rows)) == 16 * 4 * 9 * 2
    up = typed(nn.conv2d_transpose(tensor(1, 4, 5, 5), tensor(4, 3, 2, 2), strides=(2, 2)))
    assert multiply_accumulates(up) == 4 * 25 * 3 * 4
    assert multiply_accumulates(typed(relax.op.add(tensor(2, 2), tensor(2, 2)))) == 0


def attention():
    """One head of attention: two dense layers, and two products of activations."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(8, 8)).astype("float32") for name in ("wq", "wk")}
    nodes = [
        helper.make_node("MatMul", ["x", "wq"], ["q"]),
        helper.make_node("MatMul", ["x", "wk"], ["k"]),
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("Einsum", ["shares", "q"], ["y"], equation="bij,bjd->bid"),
    ]
    return model(nodes, {"x": (1, 5, 8)}, {"y": None}, weights)


def test_coverage_counts_both_products_of_attention(tmp_path):
    file = tmp_path / "attention.onnx"
    file.write_bytes(attention().SerializeToString())
    report = relay_int8.preview(relay_int8.load_model(file))
    macs = {layer.name: layer.macs for layer in report.layers if layer.macs}
    assert macs == {"q": 5 * 64, "k": 5 * 64, "y": 2 * 5 * 5 * 8}
    assert report.coverage["int8_macs"] == 2 * 5 * 64 + 2 * math.prod((5, 5, 8))
    assert report.coverage["float_macs"] == 0


def test_scales_of_channels_sum_nothing():
    """As batch norms between float tensors become, which are no products of a report."""
    x = relax.Var("x", relax.TensorType((1, 4, 3, 3), "float32"))
    pixel, window = (relax.const(np.ones((4, 1, k, k), "float32")) for k in (1, 3))
    scale = typed(relax.op.nn.conv2d(x, pixel, groups=4))
    assert multiply_accumulates(scale) == 0
    assert multiply_accumulates(typed(relax.op.nn.conv2d(x, window, padding=1, groups=4))) == 36 * 9
